package workspace

import (
	"slices"
	"strings"
)

// Change is one path that differs between two versions.
type Change struct {
	Path string     `json:"path"`
	Kind ChangeKind `json:"change"`
	Is   string     `json:"kind"`           // file, folder or link; of the newer version if it has the path
	From string     `json:"from,omitempty"` // old path of a renamed file
	Was  int64      `json:"size_before"`
	Size int64      `json:"size"`
	// Meta is set if only permissions or times differ.
	Meta bool `json:"metadata_only,omitempty"`
	// Flagged is set if the file is new, renamed or has new bytes, and RunsByItself reports true for its path.
	Flagged bool `json:"flagged,omitempty"`
}

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of change.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
	Renamed  ChangeKind = "renamed" // the same bytes are now at another path
)

// Difference lists the changes from one version to another.
type Difference struct {
	Changes  []Change `json:"changes"` // sorted by path
	Added    int      `json:"added"`
	Modified int      `json:"modified"`
	Deleted  int      `json:"deleted"`
	Renamed  int      `json:"renamed"`
	Bytes    int64    `json:"bytes"` // total size of files that are new or have new bytes
}

// Diff compares version a with the later version b; nil means an empty version. Changes are ordered by path. A
// rename is listed under its new path.
func Diff(a, b *Manifest) *Difference {
	var was, is []Entry
	if a != nil {
		was = a.Entries
	}
	if b != nil {
		is = b.Entries
	}
	changes := differing(was, is)
	changes = renames(changes, a, b)
	d := &Difference{Changes: changes}
	for i := range changes {
		c := &changes[i]
		c.Flagged = c.Kind != Deleted && !c.Meta && c.Is != Folder.String() && RunsByItself(c.Path)
		d.count(*c)
	}
	return d
}

func differing(was, is []Entry) []Change {
	changes := []Change{}
	for len(was) > 0 || len(is) > 0 {
		path := least(was, is)
		switch a, b := take(&was, path), take(&is, path); {
		case a == nil:
			changes = append(changes, Change{Path: path, Kind: Added, Is: b.Kind.String(), Size: b.Size})
		case b == nil:
			changes = append(changes, Change{Path: path, Kind: Deleted, Is: a.Kind.String(), Was: a.Size})
		case !alike(a, b):
			changes = append(changes, Change{Path: path, Kind: Modified, Is: b.Kind.String(), Was: a.Size, Size: b.Size, Meta: a.content(b)})
		}
	}
	return changes
}

// renames merges the deletion and the addition of a moved file into one change. If several files have the same
// bytes, the first deleted file is matched with the first added file.
func renames(changes []Change, a, b *Manifest) []Change {
	moved := map[packRef][]int{} // indexes of deleted files, by size and checksum
	for i, c := range changes {
		if c.Kind == Deleted && c.Is == File.String() && c.Was > 0 {
			e := a.find(c.Path)
			key := packRef{size: e.Size, sum: e.Sum.SHA256}
			moved[key] = append(moved[key], i)
		}
	}
	if len(moved) == 0 {
		return changes
	}
	gone := map[int]bool{}
	for i := range changes {
		c := &changes[i]
		if c.Kind != Added || c.Is != File.String() || c.Size == 0 {
			continue
		}
		e := b.find(c.Path)
		key := packRef{size: e.Size, sum: e.Sum.SHA256}
		if from := moved[key]; len(from) > 0 && e.Sum.SHA256 != none.SHA256 {
			c.Kind, c.From, c.Was = Renamed, changes[from[0]].Path, changes[from[0]].Was
			gone[from[0]], moved[key] = true, from[1:]
		}
	}
	at := -1
	return slices.DeleteFunc(changes, func(Change) bool { at++; return gone[at] })
}

func (d *Difference) count(c Change) {
	switch c.Kind {
	case Added:
		d.Added++
		d.Bytes += c.Size
	case Modified:
		d.Modified++
		if !c.Meta {
			d.Bytes += c.Size
		}
	case Deleted:
		d.Deleted++
	case Renamed:
		d.Renamed++
	}
}

// String returns "file", "folder" or "link".
func (k Kind) String() string {
	switch k {
	case Folder:
		return "folder"
	case Link:
		return "link"
	}
	return "file"
}

// RunsByItself reports whether common tools execute the file at a path, or use it as settings, without asking: git,
// editors, shells and agents. Berth executes none of them. Diffs and restores list such files, so that users can
// review them before they copy a workspace out of its sandbox.
func RunsByItself(path string) bool {
	rest := path
	for {
		for _, p := range flagged {
			if rest == p || strings.HasSuffix(p, "/") && strings.HasPrefix(rest, p) {
				return true
			}
		}
		var below bool
		if _, rest, below = strings.Cut(rest, "/"); !below {
			return false
		}
	}
}

// flagged lists the files and folders for RunsByItself. They match at any depth of a tree.
var flagged = []string{
	".git/hooks/", ".git/config", ".husky/", ".envrc",
	".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/", ".mcp.json", ".cursor/mcp.json",
	".vscode/settings.json", ".vscode/tasks.json", ".idea/workspace.xml",
}
