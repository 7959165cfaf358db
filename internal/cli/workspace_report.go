package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/workspace"
)

// syncedJSON is what --json prints of a push, a pull, a sync or a restore.
type syncedJSON struct {
	Version string `json:"version"` // that the directory is now the same as
	New     bool   `json:"new"`     // it was saved by this command
	workspace.Stats
	Conflicts []workspace.Conflict `json:"conflicts"`
	Skipped   []skippedJSON        `json:"skipped"`
	Flagged   []string             `json:"flagged"`
}

type skippedJSON struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

func skippedOf(skipped []workspace.Skipped) []skippedJSON {
	all := make([]skippedJSON, len(skipped))
	for i, s := range skipped {
		all[i] = skippedJSON(s)
	}
	return all
}

// tellSync says what came of one, and names what was kept twice and what could not be saved.
func (f *frame) tellSync(res *workspace.Result, what string, took time.Duration) error {
	if f.json {
		return writeJSON(f.out, syncedJSON{res.Version, res.New, res.Stats, append([]workspace.Conflict{}, res.Conflicts...), skippedOf(res.Skipped), append([]string{}, res.Flagged...)})
	}
	f.tellKept(res)
	if f.quiet {
		return f.line(res.Version)
	}
	_, err := fmt.Fprintf(f.out, "%s (%s)\n", what, brief(took))
	return err
}

// mostNamed is how many files are named before the rest is counted.
const mostNamed = 20

func (f *frame) tellKept(res *workspace.Result) {
	nameEach(f, res.Conflicts, func(c workspace.Conflict) string {
		return fmt.Sprintf("changed on both sides, and kept twice: %s and %s", clean(c.Path), clean(c.Copy))
	})
	nameEach(f, res.Skipped, func(s workspace.Skipped) string {
		return fmt.Sprintf("left out %s: %s", clean(s.Path), clean(s.Why))
	})
	nameEach(f, res.Flagged, func(path string) string {
		return "common tools run this by themselves; look at it first: " + clean(path)
	})
}

// nameEach warns of each, up to a number.
func nameEach[T any](f *frame, all []T, about func(T) string) {
	for i, one := range all {
		if i == mostNamed {
			f.warnf("… and %d more", len(all)-i)
			return
		}
		f.warnf("%s", about(one))
	}
}

// warnf says what must not be overlooked, also to whoever wants to hear little.
func (f *frame) warnf(format string, args ...any) {
	if !f.json {
		fmt.Fprintf(f.err, "%s %s\n", f.err.paint(yellow, "berth:"), fmt.Sprintf(format, args...))
	}
}

// saved is what a push or a sync came to.
func saved(res *workspace.Result) string {
	what := "nothing changed here since version "
	switch {
	case res.New:
		what = "saved version "
	case res.Stats.FilesDownloaded+res.Stats.FilesDeleted > 0:
		what = "brought version "
	}
	return what + res.Version + counts(res.Stats)
}

// pulled is what a pull came to.
func pulled(res *workspace.Result, base *workspace.Index) string {
	if base != nil && base.ID == res.Version {
		return "nothing new: the newest version is still " + res.Version
	}
	return "brought version " + res.Version + counts(res.Stats)
}

// counts is what was done, without what was not.
func counts(s workspace.Stats) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{s.FilesUploaded, "sent"}, {s.FilesDownloaded, "written"}, {s.FilesDeleted, "deleted"}} {
		if x.n > 0 {
			parts = append(parts, plural(x.n, "file ", "files ")+x.what)
		}
	}
	if s.BytesTransferred > 0 {
		parts = append(parts, size(s.BytesTransferred))
	}
	if s.FilesSkipped > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", s.FilesSkipped))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
