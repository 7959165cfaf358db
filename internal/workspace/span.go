package workspace

import (
	"cmp"
	"slices"
)

const (
	rangeGap  = 128 << 10 // ranges of a pack that are this near are read as one
	rangeMost = 16 << 20  // of several files; a large file is read in one go
	streams   = 8         // ranges that are read at once
	copyBlock = 256 << 10 // of a large file that is read at once
)

// place is where bytes are, and what they must be: files that agree in it are read once.
type place struct {
	at   Place
	size int64
	sum  [32]byte
}

// item is one file to write, in as many places as it has to be.
type item struct {
	e     *Entry
	steps []*Step
}

// span is a range of a pack and the files in it, by offset.
type span struct {
	pack     int
	from, to int64
	items    []item
}

// most is how much of a span is held in memory at once.
func (s *span) most() (n int64) {
	for i := range s.items {
		if size := s.items[i].e.Size; size >= largeFile {
			n = max(n, copyBlock)
		} else {
			n = max(n, size)
		}
	}
	return n
}

// spansOf groups what is to be read by pack, in ranges worth a request each.
func spansOf(items []item) (spans []span) {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.e.At.Pack, b.e.At.Pack), cmp.Compare(a.e.At.Offset, b.e.At.Offset))
	})
	for _, it := range items {
		from, to := it.e.At.Offset, it.e.At.Offset+it.e.Size
		if n := len(spans) - 1; n >= 0 {
			last := &spans[n]
			if last.pack == it.e.At.Pack && from >= last.to && from-last.to <= rangeGap && to-last.from <= rangeMost {
				last.to, last.items = to, append(last.items, it)
				continue
			}
		}
		spans = append(spans, span{it.e.At.Pack, from, to, []item{it}})
	}
	return spans
}
