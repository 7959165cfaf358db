package workspace

import (
	"sort"
	"strings"
)

// keepUnreadable copies the entries of unreadable files from the base, because an unreadable file is not deleted.
// The next push tries to read the files again.
func (p *push) keepUnreadable() {
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
				at, ok := p.pack.reuse(&e)
				if !ok {
					continue
				}
				e.At = at
			}
			have[e.Path], folders[e.Path] = true, e.Kind == Folder
			p.next.Entries, p.stamps = append(p.next.Entries, e), append(p.stamps, Stamp{})
		}
	}
	sort.Sort(byPathWithStamps{p.next.Entries, p.stamps})
}

// below returns the entry at a path of a sorted list, and all entries under it, in order.
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

// byPathWithStamps sorts entries by path and keeps each stamp at the index of its entry.
type byPathWithStamps struct {
	entries []Entry
	stamps  []Stamp
}

func (s byPathWithStamps) Len() int           { return len(s.entries) }
func (s byPathWithStamps) Less(i, j int) bool { return s.entries[i].Path < s.entries[j].Path }
func (s byPathWithStamps) Swap(i, j int) {
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
	s.stamps[i], s.stamps[j] = s.stamps[j], s.stamps[i]
}
