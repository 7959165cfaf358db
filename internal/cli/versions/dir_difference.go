package versions

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

// difference is the difference between two trees, in the form of the JSON output.
type difference struct {
	From     string       `json:"from"` // version; empty: no files, as before the first version
	To       string       `json:"to"`   // version; empty: the directory
	Added    int          `json:"added"`
	Modified int          `json:"modified"`
	Deleted  int          `json:"deleted"`
	Renamed  int          `json:"renamed"`
	Bytes    int64        `json:"bytes"` // total size of files that are new or have new contents
	Changes  []pathChange `json:"paths"`
}

// pathChange is one path that differs between two trees.
type pathChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`         // added, modified, deleted or renamed
	Kind   string `json:"kind"`           // file, folder or link
	From   string `json:"from,omitempty"` // old path of a renamed entry
	Size   int64  `json:"size"`           // size of the file; its old size if it was deleted
	Was    int64  `json:"was,omitempty"`  // old size of a modified file
	Meta   bool   `json:"metadata_only,omitempty"`
}

func differenceOf(from, to string, d *workspace.Difference) difference {
	out := difference{From: from, To: to, Added: d.Added, Modified: d.Modified, Deleted: d.Deleted, Renamed: d.Renamed, Bytes: d.Bytes, Changes: []pathChange{}}
	for _, c := range d.Changes {
		out.Changes = append(out.Changes, changeOf(c))
	}
	return out
}

func changeOf(c workspace.Change) pathChange {
	out := pathChange{Path: c.Path, Change: string(c.Kind), Kind: c.Is, From: c.From, Size: c.Size, Meta: c.Meta}
	switch c.Kind {
	case workspace.Deleted:
		out.Size = c.Was
	case workspace.Modified:
		out.Was = c.Was
	}
	return out
}

func (a *app) showDifference(diff difference) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, diff)
	}
	return a.printDifference(diff)
}

// printDifference prints a line for each path, and a summary.
func (a *app) printDifference(diff difference) error {
	for _, c := range diff.Changes {
		line := a.changeLine(c)
		if a.Quiet {
			line = ui.Clean(c.Path)
		}
		if _, err := fmt.Fprintln(a.Out, line); err != nil {
			return err
		}
	}
	if a.Quiet {
		return nil
	}
	_, err := fmt.Fprintln(a.Out, differenceSummary(diff))
	return err
}

// changeLetters are the marks of the kinds of change.
var changeLetters = map[string]ui.Cell{"added": ui.Coloured("A", ui.Green), "modified": ui.Coloured("M", ui.Yellow), "deleted": ui.Coloured("D", ui.Red), "renamed": ui.Coloured("R", ui.Yellow)}

func (a *app) changeLine(c pathChange) string {
	letter, path := changeLetters[c.Change], ui.Clean(c.Path)
	if c.From != "" {
		path = ui.Clean(c.From) + " → " + path
	}
	return a.Out.Paint(letter.Colour, letter.Text) + "  " + path + changeDetail(c)
}

// changeDetail describes a change, without its path.
func changeDetail(c pathChange) string {
	switch {
	case c.Kind == "folder":
		return "/"
	case c.Meta:
		return "  (permissions or time)"
	case c.Kind == "link":
		return "  (link)"
	case c.Change == "modified" && c.Was != c.Size:
		return fmt.Sprintf("  %s, was %s", ui.Size(c.Size), ui.Size(c.Was))
	}
	return "  " + ui.Size(c.Size)
}

// differenceSummary returns the numbers of changes.
func differenceSummary(d difference) string {
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
		text += "; " + ui.Size(d.Bytes) + " new"
	}
	return text
}
