package workspace

import (
	"sort"
	"strings"
)

// carry takes over from the base what could not be looked at or read: that a file cannot be read now does
// not mean that it is gone, and a version without it would say so. It is read again at the next push.
func (p *push) carry() {
	if len(p.scan.unread) == 0 {
		return
	}
	have := make(map[string]bool, len(p.next.Entries))
	folders := map[string]bool{"": true}
	for i := range p.next.Entries {
		have[p.next.Entries[i].Path] = true
		folders[p.next.Entries[i].Path] = p.next.Entries[i].Kind == Folder
	}
	for _, path := range p.scan.unread {
		for _, e := range below(p.base.Entries, path) {
			if have[e.Path] || !folders[parentOf(e.Path)] {
				continue
			}
			if e.Kind == File {
				at, ok := p.pack.from(&e)
				if !ok {
					continue
				}
				e.At = at
			}
			have[e.Path], folders[e.Path] = true, e.Kind == Folder
			p.next.Entries, p.stamps = append(p.next.Entries, e), append(p.stamps, Stamp{})
		}
	}
	sort.Sort(stamped{p.next.Entries, p.stamps})
}

// below is a path of a sorted list and everything under it, in order.
func below(entries []Entry, path string) (found []Entry) {
	at := func(path string) int {
		return sort.Search(len(entries), func(i int) bool { return entries[i].Path >= path })
	}
	if i := at(path); i < len(entries) && entries[i].Path == path {
		found = append(found, entries[i])
	}
	for i := at(path + "/"); i < len(entries) && strings.HasPrefix(entries[i].Path, path+"/"); i++ {
		found = append(found, entries[i])
	}
	return found
}

// stamped sorts entries by path, and their stamps with them.
type stamped struct {
	entries []Entry
	stamps  []Stamp
}

func (s stamped) Len() int           { return len(s.entries) }
func (s stamped) Less(i, j int) bool { return s.entries[i].Path < s.entries[j].Path }
func (s stamped) Swap(i, j int) {
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
	s.stamps[i], s.stamps[j] = s.stamps[j], s.stamps[i]
}
