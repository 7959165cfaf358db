package workspace

import "slices"

// Change is one path that is not the same in two versions.
type Change struct {
	Path string     `json:"path"`
	Kind ChangeKind `json:"change"`
	Is   string     `json:"kind"` // file, folder or link, in the version that has it
	From string     `json:"from,omitempty"`
	Was  int64      `json:"size_before"`
	Size int64      `json:"size"`
	// Meta says that only permissions, times or the like differ.
	Meta bool `json:"metadata_only,omitempty"`
	// Flagged says that it is new or has new bytes, and that common tools run it by themselves.
	Flagged bool `json:"flagged,omitempty"`
}

// ChangeKind is what became of a path.
type ChangeKind string

// What can become of a path.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
	Renamed  ChangeKind = "renamed" // a file that is gone from one path and is, with the same bytes, at another
)

// Difference is what changed from one version to another.
type Difference struct {
	Changes  []Change `json:"changes"` // by path
	Added    int      `json:"added"`
	Modified int      `json:"modified"`
	Deleted  int      `json:"deleted"`
	Renamed  int      `json:"renamed"`
	Bytes    int64    `json:"bytes"` // in files that are new or have new bytes
}

// Diff compares two versions, from a to b; either may be nil for one that has nothing. The order of the
// changes is that of their paths, and a rename is where the file is now.
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
		c.Flagged = c.Kind != Deleted && !c.Meta && c.Is != Folder.String() && Flagged(c.Path)
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

// renames makes one change of two where a file has moved. Of several with the same bytes, the first goes
// to the first.
func renames(changes []Change, a, b *Manifest) []Change {
	moved := map[place][]int{} // what is gone, by its bytes
	for i, c := range changes {
		if c.Kind == Deleted && c.Is == File.String() && c.Was > 0 {
			e := a.find(c.Path)
			key := place{size: e.Size, sum: e.Sum.SHA256}
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
		key := place{size: e.Size, sum: e.Sum.SHA256}
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

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case Folder:
		return "folder"
	case Link:
		return "link"
	}
	return "file"
}
