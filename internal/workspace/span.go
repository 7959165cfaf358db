package workspace

import (
	"cmp"
	"slices"
)

const (
	rangeGap  = 128 << 10 // ranges of a pack with gaps up to this size are read in one request
	rangeMost = 16 << 20  // maximum range for several files; a large file is read in one request
	streams   = 8         // number of concurrent reads of ranges
	copyBlock = 256 << 10 // buffer size for large files
)

// packRef identifies stored bytes by location and checksum. Equal bytes are read once.
type packRef struct {
	at   PackOffset
	size int64
	sum  [32]byte
}

// item is the bytes of one file and all steps that write these bytes.
type item struct {
	e     *Entry
	steps []*Step
}

// span is a range of a pack that is read in one request. Its items are ordered by offset.
type span struct {
	pack     int
	from, to int64
	items    []item
}

// most returns the size of the buffer that is needed to read the span.
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

// spansOf groups items of the same pack that are close together into spans.
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
