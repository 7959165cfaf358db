package versions

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

// syncedJSON is the JSON output of a push, pull, sync or restore.
type syncedJSON struct {
	Version string `json:"version"` // version that the directory has now
	New     bool   `json:"new"`     // this command saved the version
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

// printLocalSync prints the result of a sync of a directory, and warns of conflicts and of files that were not saved.
func (a *app) printLocalSync(res *workspace.Result, what string, took time.Duration) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, syncedJSON{res.Version, res.New, res.Stats, append([]workspace.Conflict{}, res.Conflicts...),
			skippedOf(res.Skipped), append([]string{}, res.Flagged...)})
	}
	a.warnKept(res)
	if a.Quiet {
		return a.Line(res.Version)
	}
	_, err := fmt.Fprintf(a.Out, "%s (%s)\n", what, ui.Brief(took))
	return err
}

// maxNamed is the maximum number of files in warnings of one kind.
const maxNamed = 20

func (a *app) warnKept(res *workspace.Result) {
	warnEach(a, res.Conflicts, func(c workspace.Conflict) string {
		return fmt.Sprintf("changed on both sides, and kept twice: %s and %s", ui.Clean(c.Path), ui.Clean(c.Copy))
	})
	warnEach(a, res.Skipped, func(s workspace.Skipped) string {
		return fmt.Sprintf("left out %s: %s", ui.Clean(s.Path), ui.Clean(s.Why))
	})
	warnEach(a, res.Flagged, func(path string) string {
		return "common tools run this by themselves; look at it first: " + ui.Clean(path)
	})
}

// warnEach prints a warning for each of the first maxNamed items, and the number of the others.
func warnEach[T any](a *app, all []T, about func(T) string) {
	for i, one := range all {
		if i == maxNamed {
			a.Warnf("… and %d more", len(all)-i)
			return
		}
		a.Warnf("%s", about(one))
	}
}

// saved describes the result of a push or a sync.
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

// pulled describes the result of a pull.
func pulled(res *workspace.Result, base *workspace.Index) string {
	if base != nil && base.ID == res.Version {
		return "nothing new: the newest version is still " + res.Version
	}
	return "brought version " + res.Version + counts(res.Stats)
}

// counts describes what a sync did. It leaves out numbers that are zero.
func counts(s workspace.Stats) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{s.FilesUploaded, "sent"}, {s.FilesDownloaded, "written"}, {s.FilesDeleted, "deleted"}} {
		if x.n > 0 {
			parts = append(parts, ui.Plural(x.n, "file ", "files ")+x.what)
		}
	}
	if s.BytesTransferred > 0 {
		parts = append(parts, ui.Size(s.BytesTransferred))
	}
	if s.FilesSkipped > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", s.FilesSkipped))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
