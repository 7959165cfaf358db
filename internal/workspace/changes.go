package workspace

import (
	"context"
	"slices"
)

// Changes compares the current tree with the version from; nil means an empty version. Base is the last synced
// version, or nil if unknown: files that did not change since base are not read. Unreadable files count as
// unchanged, as in a push.
func Changes(ctx context.Context, t Tree, from *Manifest, base *Index, ignore *Ignore) (*Difference, error) {
	scan, err := Scan(ctx, t, ScanOptions{Ignore: ignore})
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = new(Index)
	}
	is := new(Manifest)
	if from == nil { // everything is new; contents do not matter
		for i := range scan.Entries {
			is.Entries = append(is.Entries, scan.Entries[i].entry())
		}
	} else if is.Entries, err = sums(ctx, t, scan.Entries, base); err != nil {
		return nil, err
	}
	is.keepUnreadable(base, scan)
	return Diff(from, is), nil
}

// keepUnreadable replaces unreadable entries with the entries of the base.
func (m *Manifest) keepUnreadable(base *Index, scan *ScanResult) {
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
