package workspace

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"hash"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	md5simd "github.com/minio/md5-simd"
	"golang.org/x/sync/errgroup"
)

// sums makes entries of what was seen: clean files have the checksums of the base, others are read for
// theirs. Nothing is stored.
func sums(ctx context.Context, t Tree, seen []Seen, base *Index) ([]Entry, error) {
	entries := make([]Entry, len(seen))
	var dirty []int
	base.match(seen, func(i, at int) {
		entries[i] = seen[i].entry()
		switch {
		case seen[i].Kind != File:
		case at >= 0 && base.clean(at, &seen[i]):
			entries[i].Sum = base.Entries[at].Sum
		default:
			dirty = append(dirty, i)
		}
	})
	err := inParallel(ctx, t, len(dirty), readers(), func(root, n int) error {
		readSum(root, &entries[dirty[n]], &seen[dirty[n]])
		return nil
	})
	return entries, err
}

// match calls do with every entry that was seen and its place in the base, which is negative if it has
// none.
func (x *Index) match(seen []Seen, do func(i, at int)) {
	at := 0
	for i := range seen {
		for at < len(x.Entries) && x.Entries[at].Path < seen[i].Path {
			at++
		}
		if at < len(x.Entries) && x.Entries[at].Path == seen[i].Path {
			do(i, at)
		} else {
			do(i, -1)
		}
	}
}

// readers is how many files are read at once.
func readers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// inParallel calls do with every number below n, on so many threads of the tree's owner.
func inParallel(ctx context.Context, t Tree, n, workers int, do func(root, i int) error) error {
	var at atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(workers, n) {
		g.Go(func() error {
			return t.Run(func(root int) error {
				for i := int(at.Add(1)) - 1; i < n; i = int(at.Add(1)) - 1 {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := do(root, i); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// entry is what was seen, without checksums.
func (s *Seen) entry() Entry {
	return Entry{Path: s.Path, Kind: s.Kind, Mode: s.Mode, Size: s.Size, ModTime: s.ModTime, Target: s.Target}
}

// readSum reads a file for its checksums. One that cannot be read, or changes meanwhile, is like no other,
// and so is never taken for unchanged, overwritten or deleted.
func readSum(root int, e *Entry, seen *Seen) {
	e.Sum = unread
	f, st, err := openFile(root, e.Path)
	if err != nil {
		return
	}
	defer f.Close()
	e.Size, e.Mode, e.ModTime = st.Size, st.Mode&0o777, st.Mtim.Nano()
	seen.Size, seen.Mode, seen.ModTime, seen.Stamp = e.Size, e.Mode, e.ModTime, Stamp{st.Ctim.Nano(), st.Ino}
	if hashed(e, f, io.Discard) != nil || !unmoved(f, &st) {
		e.Sum = unread
	}
}

// summer computes both checksums of what is added, MD5 only if it is asked for.
type summer struct{ sha, md hash.Hash }

func newSummer(both bool) *summer {
	s := &summer{sha: sha256.New()}
	if both {
		s.md = md5.New()
	}
	return s
}

// fromLanes is the size from which a file's MD5 is computed beside those of others, on one core for all.
const fromLanes = 8 << 20

var lanes = sync.OnceValue(md5simd.NewServer)

// newSummerOf is newSummer of both for a file of a known size. It must be closed.
func newSummerOf(size int64) *summer {
	if size < fromLanes {
		return newSummer(true)
	}
	return &summer{sha: sha256.New(), md: lanes().NewHash()}
}

// close gives a lane back.
func (s *summer) close() {
	if lane, ok := s.md.(md5simd.Hasher); ok {
		lane.Close()
	}
}

// add takes more bytes; the two are computed beside each other.
func (s *summer) add(data []byte) {
	if s.md == nil {
		s.sha.Write(data)
		return
	}
	if _, ok := s.md.(md5simd.Hasher); ok { // it only takes a copy
		s.md.Write(data)
		s.sha.Write(data)
		return
	}
	done := make(chan struct{})
	go func() {
		s.sha.Write(data)
		close(done)
	}()
	s.md.Write(data)
	<-done
}

func (s *summer) sum() (sum Sum) {
	s.sha.Sum(sum.SHA256[:0])
	if s.md != nil {
		s.md.Sum(sum.MD5[:0])
	}
	return sum
}
