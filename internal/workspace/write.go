package workspace

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// writer writes what a version has and the tree has not.
type writer struct {
	*pull
	stamps       []Stamp
	files, moved atomic.Int64
}

func newWriter(p *pull) *writer { return &writer{pull: p, stamps: make([]Stamp, len(p.there.Entries))} }

// all writes links and files, several ranges at once, each file only once its bytes are what the version
// says.
func (w *writer) all(ctx context.Context) error {
	items, err := w.easy()
	if err == nil {
		var bytes int64
		for i := range items {
			bytes += items[i].e.Size
		}
		w.Progress.expect(len(items), bytes)
		err = w.read(ctx, spansOf(items))
	}
	w.stats.FilesDownloaded += int(w.files.Load())
	w.stats.BytesTransferred += w.moved.Load()
	return err
}

func (w *writer) read(ctx context.Context, spans []span) error {
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(streams)
	for i := range spans {
		if reading.Err() != nil {
			break
		}
		g.Go(func() error { return w.span(reading, &spans[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// easy does what needs no bytes and returns what does.
func (w *writer) easy() (items []item, err error) {
	byPlace := map[place]int{}
	err = w.tree.Run(func(root int) error {
		at := newParents(root)
		defer at.close()
		for i := range w.steps {
			s := &w.steps[i]
			if s.Act == Keep && s.There.Kind == File {
				w.stats.FilesSkipped++
			}
			if s.Act != Down && s.Act != Both || s.There.Kind == Folder {
				continue
			}
			switch done, err := w.simple(root, at, s); {
			case err != nil:
				return err
			case done:
				continue
			}
			key := place{s.There.At, s.There.Size, s.There.Sum.SHA256}
			n, ok := byPlace[key]
			if !ok || s.There.Size >= largeFile {
				n = len(items)
				byPlace[key] = n
				items = append(items, item{e: s.There})
			}
			items[n].steps = append(items[n].steps, s)
		}
		return nil
	})
	return items, err
}

// simple does what needs no bytes.
func (w *writer) simple(root int, at *parents, s *Step) (done bool, err error) {
	if s.There.Kind == Link {
		return true, w.link(at, s)
	}
	if s.Act == Down && s.Here != nil && s.Here.content(s.There) {
		stamp, err := setFile(root, s.Path, s.There)
		switch {
		case err == nil:
			w.stamps[s.there] = stamp
			return true, nil
		case errors.Is(err, errLinked), errors.Is(err, errNotRegular), gone(err), unreadable(err): // written anew
		default:
			return false, err
		}
	}
	if s.There.Size > 0 {
		return false, nil
	}
	if s.There.Sum.SHA256 == none.SHA256 {
		s.There.Sum = sumOf(nil)
	}
	return true, w.file(at, s, func(int) error { return nil })
}

func sumOf(data []byte) Sum { return Sum{sha256.Sum256(data), md5.Sum(data)} }

// span reads one range and writes the files in it. The store is asked as ourselves, the files are written
// as their owner.
func (w *writer) span(ctx context.Context, s *span) error {
	pack := w.there.Packs[s.pack]
	o, err := w.Store.Get(ctx, w.Prefix+pack.Key, blob.GetOptions{Offset: s.from, Length: s.to - s.from})
	if err != nil {
		return fmt.Errorf("read %s: %w", pack.Key, err)
	}
	defer o.Body.Close()
	return w.tree.Run(func(root int) error {
		at := newParents(root)
		defer at.close()
		return w.items(ctx, at, s, pack, o.Body)
	})
}

func (w *writer) items(ctx context.Context, at *parents, s *span, pack Pack, body io.Reader) error {
	offset := s.from
	buf, told := make([]byte, s.most()), int64(0)
	for i := range s.items {
		it := &s.items[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, body, it.e.At.Offset-offset); err != nil {
			return fmt.Errorf("read %s: %w", pack.Key, err)
		}
		if err := w.item(at, it, body, buf, &told); err != nil {
			return err
		}
		offset = it.e.At.Offset + it.e.Size
		w.moved.Add(it.e.Size)
		w.Progress.finished(it.e.Size, &told)
	}
	return nil
}

// item takes the bytes of one file and writes it wherever it has to be.
func (w *writer) item(at *parents, it *item, body io.Reader, buf []byte, told *int64) error {
	if it.e.Size >= largeFile {
		passing := &flow{body, w.Progress, it.e.Size, told}
		return w.file(at, it.steps[0], func(fd int) error { return copyLarge(fd, it.e, passing, buf) })
	}
	data := buf[:it.e.Size]
	if _, err := io.ReadFull(body, data); err != nil {
		return fmt.Errorf("read the bytes of %s: %w", it.e.Path, err)
	}
	if err := it.e.believe(data); err != nil {
		return err
	}
	for _, s := range it.steps {
		s.There.Sum = it.e.Sum
		if err := w.file(at, s, func(fd int) error { return writeAll(fd, data) }); err != nil {
			return err
		}
	}
	return nil
}

// believe compares bytes with the checksums of their entry, and completes those.
func (e *Entry) believe(data []byte) error {
	sum := Sum{SHA256: sha256.Sum256(data)}
	if e.Sum.SHA256 == none.SHA256 {
		sum.MD5 = md5.Sum(data)
	}
	return e.settle(sum)
}

// settle compares the checksums that were computed with those that the version has, and completes those:
// a version that others wrote may have MD5 alone, or none.
func (e *Entry) settle(got Sum) error {
	switch {
	case e.Sum.SHA256 != none.SHA256:
		if got.SHA256 != e.Sum.SHA256 {
			return altered(e)
		}
		return nil
	case e.Sum.MD5 != none.MD5 && got.MD5 != e.Sum.MD5:
		return altered(e)
	}
	e.Sum = got
	return nil
}

// altered is a file whose stored bytes are not those that were saved.
func altered(e *Entry) error {
	return sandbox.Errorf("restore", api.CodeBadManifest, "the stored bytes of %s are not those that were saved", clip(e.Path))
}

// copyLarge writes a file while it comes. Blocks of nothing but zeros are left out: what is a hole in a
// file that was saved is one again.
func copyLarge(fd int, e *Entry, body io.Reader, buf []byte) error {
	sums := newSummer(e.Sum.SHA256 == none.SHA256)
	for at := int64(0); at < e.Size; {
		n, err := io.ReadFull(body, buf[:min(int64(len(buf)), e.Size-at)])
		if err != nil {
			return fmt.Errorf("read the bytes of %s: %w", e.Path, err)
		}
		sums.add(buf[:n])
		if isZero(buf[:n]) {
			if _, err = unix.Seek(fd, int64(n), io.SeekCurrent); err == nil {
				err = unix.Ftruncate(fd, at+int64(n))
			}
		} else {
			err = writeAll(fd, buf[:n])
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return e.settle(sums.sum())
}

func isZero(data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(zeros))
		if !bytes.Equal(data[:n], zeros[:n]) {
			return false
		}
		data = data[n:]
	}
	return true
}

var zeros [4096]byte
