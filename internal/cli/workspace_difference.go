package cli

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/internal/workspace"
)

// difference is what changed from one tree to another, as --json prints it.
type difference struct {
	From     string       `json:"from"` // empty: nothing, as before the first version
	To       string       `json:"to"`   // empty: the directory
	Added    int          `json:"added"`
	Modified int          `json:"modified"`
	Deleted  int          `json:"deleted"`
	Renamed  int          `json:"renamed"`
	Bytes    int64        `json:"bytes"` // in files that are new or have new bytes
	Changes  []pathChange `json:"paths"`
}

// pathChange is one path that two trees do not have alike.
type pathChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`         // added, modified, deleted or renamed
	Kind   string `json:"kind"`           // file, folder or link
	From   string `json:"from,omitempty"` // of what was renamed
	Size   int64  `json:"size"`           // of a file; of one that was deleted: as it was
	Was    int64  `json:"was,omitempty"`  // of one that was modified
	Meta   bool   `json:"metadata_only,omitempty"`
}

func differenceOf(from, to string, d *workspace.Difference) difference {
	told := difference{From: from, To: to, Added: d.Added, Modified: d.Modified, Deleted: d.Deleted, Renamed: d.Renamed, Bytes: d.Bytes, Changes: []pathChange{}}
	for _, c := range d.Changes {
		told.Changes = append(told.Changes, changeOf(c))
	}
	return told
}

func changeOf(c workspace.Change) pathChange {
	told := pathChange{Path: c.Path, Change: string(c.Kind), Kind: c.Is, From: c.From, Size: c.Size, Meta: c.Meta}
	switch c.Kind {
	case workspace.Deleted:
		told.Size = c.Was
	case workspace.Modified:
		told.Was = c.Was
	}
	return told
}

func (f *frame) showDifference(diff difference) error {
	if f.json {
		return writeJSON(f.out, diff)
	}
	return f.tellDifference(diff)
}

// tellDifference prints a line for each path, and the sum.
func (f *frame) tellDifference(diff difference) error {
	for _, c := range diff.Changes {
		line := f.changeLine(c)
		if f.quiet {
			line = clean(c.Path)
		}
		if _, err := fmt.Fprintln(f.out, line); err != nil {
			return err
		}
	}
	if f.quiet {
		return nil
	}
	_, err := fmt.Fprintln(f.out, differenceInShort(diff))
	return err
}

// letters are what became of a path, for a glance.
var letters = map[string]cell{"added": {"A", green}, "modified": {"M", yellow}, "deleted": {"D", red}, "renamed": {"R", yellow}}

func (f *frame) changeLine(c pathChange) string {
	letter, path := letters[c.Change], clean(c.Path)
	if c.From != "" {
		path = clean(c.From) + " → " + path
	}
	return f.out.paint(letter.colour, letter.text) + "  " + path + changeDetail(c)
}

// changeDetail is what there is to say about a change, beside where it is.
func changeDetail(c pathChange) string {
	switch {
	case c.Kind == "folder":
		return "/"
	case c.Meta:
		return "  (permissions or time)"
	case c.Kind == "link":
		return "  (link)"
	case c.Change == "modified" && c.Was != c.Size:
		return fmt.Sprintf("  %s, was %s", size(c.Size), size(c.Was))
	}
	return "  " + size(c.Size)
}

// differenceInShort counts.
func differenceInShort(d difference) string {
	if len(d.Changes) == 0 {
		return "nothing differs"
	}
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{{d.Added, "added"}, {d.Modified, "modified"}, {d.Renamed, "renamed"}, {d.Deleted, "deleted"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.word))
		}
	}
	text := strings.Join(parts, ", ")
	if d.Bytes > 0 {
		text += "; " + size(d.Bytes) + " new"
	}
	return text
}
