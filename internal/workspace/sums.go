package workspace

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// sums makes entries of what was seen: clean files have the checksums of the base, others are read for
// theirs. Nothing is stored.
func (p *push) sums(ctx context.Context) ([]Entry, error) {
	seen, base := p.scan.Entries, 0
	entries := make([]Entry, len(seen))
	var dirty []int
	for i := range seen {
		for base < len(p.base.Entries) && p.base.Entries[base].Path < seen[i].Path {
			base++
		}
		entries[i] = seen[i].entry()
		if seen[i].Kind != File {
			continue
		}
		if base < len(p.base.Entries) && p.base.Entries[base].Path == seen[i].Path && p.base.clean(base, &seen[i]) {
			entries[i].Sum = p.base.Entries[base].Sum
			continue
		}
		dirty = append(dirty, i)
	}
	var at atomic.Int64
	var g errgroup.Group
	for range min(max(runtime.GOMAXPROCS(0), 2), len(dirty)) {
		g.Go(func() error {
			return p.tree.Run(func(root int) error {
				for n := int(at.Add(1)) - 1; n < len(dirty); n = int(at.Add(1)) - 1 {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := sumOf(root, &entries[dirty[n]]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return entries, g.Wait()
}

// entry is what was seen, without checksums.
func (s *Seen) entry() Entry {
	return Entry{Path: s.Path, Kind: s.Kind, Mode: s.Mode, Size: s.Size, ModTime: s.ModTime, Target: s.Target}
}

// sumOf reads a file for its checksums. One that cannot be read has none: it is like no other, and so is
// never taken for unchanged, overwritten or deleted.
func sumOf(root int, e *Entry) error {
	f, st, err := openFile(root, e.Path)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	defer f.Close()
	e.Size = st.Size
	if err := hashed(e, f, io.Discard); err != nil {
		e.Sum = Sum{}
	}
	return nil
}
