package workspace

import (
	"context"
	"slices"
)

// Changes is what differs in a tree, as it is now, from a version; a nil one has nothing. Base is what the
// tree was last the same as, so that a file which is still as it was then is not read; nil if that is not
// known. What cannot be looked at or read is taken for what it was, as a push does.
func Changes(ctx context.Context, t Tree, from *Manifest, base *Index, ignore *Ignore) (*Difference, error) {
	scan, err := Scan(ctx, t, ScanOptions{Ignore: ignore})
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = new(Index)
	}
	is := new(Manifest)
	if from == nil { // everything is new, whatever is in it
		for i := range scan.Entries {
			is.Entries = append(is.Entries, scan.Entries[i].entry())
		}
	} else if is.Entries, err = sums(ctx, t, scan.Entries, base); err != nil {
		return nil, err
	}
	is.takeOver(base, scan)
	return Diff(from, is), nil
}

// takeOver puts what the base has in the place of what could not be read.
func (m *Manifest) takeOver(base *Index, scan *ScanResult) {
	m.Entries = slices.DeleteFunc(m.Entries, func(e Entry) bool {
		missed := e.Kind == File && e.Sum == unread
		if missed {
			scan.unread = append(scan.unread, e.Path)
		}
		return missed
	})
	if len(scan.unread) == 0 {
		return
	}
	have := make(map[string]bool, len(m.Entries))
	for i := range m.Entries {
		have[m.Entries[i].Path] = true
	}
	for _, path := range scan.unread {
		for _, e := range below(base.Entries, path) {
			if !have[e.Path] {
				have[e.Path] = true
				m.Entries = append(m.Entries, e)
			}
		}
	}
	slices.SortFunc(m.Entries, byPath)
}
