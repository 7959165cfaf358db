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

// sums converts scanned entries to entries with checksums. Unchanged files get the checksums of the base; other
// files are read. It stores nothing.
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
	err := inParallel(ctx, t, len(dirty), readerCount(), func(root, n int) error {
		readSum(root, &entries[dirty[n]], &seen[dirty[n]])
		return nil
	})
	return entries, err
}

// match calls do for every scanned entry with the index of its path in the base, or -1.
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

// readerCount returns the number of small files that are read concurrently.
func readerCount() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// inParallel calls do for every number below n, concurrently in several calls of t.Run.
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

// entry returns the scanned entry as an Entry without checksums.
func (s *Seen) entry() Entry {
	return Entry{Path: s.Path, Kind: s.Kind, Mode: s.Mode, Size: s.Size, ModTime: s.ModTime, Target: s.Target}
}

// readSum reads a file to compute its checksums. A file that cannot be read, or that changes during the read, gets
// the checksum unread. It then never counts as unchanged, so it is never overwritten or deleted.
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

// summer computes a SHA-256 and, if md is set, an MD5.
type summer struct{ sha, md hash.Hash }

func newSummer(both bool) *summer {
	s := &summer{sha: sha256.New()}
	if both {
		s.md = md5.New()
	}
	return s
}

// fromLanes is the minimum file size for the SIMD implementation of MD5, which hashes several files at once on one
// core.
const fromLanes = 8 << 20

var lanes = sync.OnceValue(md5simd.NewServer)

// newSummerOf returns a summer of both checksums for a file of the given size. The caller must close it.
func newSummerOf(size int64) *summer {
	if size < fromLanes {
		return newSummer(true)
	}
	return &summer{sha: sha256.New(), md: lanes().NewHash()}
}

// close frees the resources of the SIMD implementation.
func (s *summer) close() {
	if lane, ok := s.md.(md5simd.Hasher); ok {
		lane.Close()
	}
}

// add adds bytes. It computes the two checksums concurrently.
func (s *summer) add(data []byte) {
	if s.md == nil {
		s.sha.Write(data)
		return
	}
	if _, ok := s.md.(md5simd.Hasher); ok { // Write only copies the data and does not block
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
