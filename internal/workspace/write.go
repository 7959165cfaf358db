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
	"github.com/berthdev/berth/internal/fault"
)

// writer writes the files of a version that are missing or different in the tree.
type writer struct {
	*pull
	stamps       []Stamp
	files, moved atomic.Int64
}

func newWriter(p *pull) *writer { return &writer{pull: p, stamps: make([]Stamp, len(p.there.Entries))} }

// writeAll writes links and files. It reads several ranges of packs concurrently. A file gets its final name only
// if its checksum matches.
func (w *writer) writeAll(ctx context.Context) error {
	items, err := w.writeWithoutData()
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
		g.Go(func() error { return w.writeSpan(reading, &spans[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// writeWithoutData executes the steps that need no bytes from the store. It returns items for the other steps.
func (w *writer) writeWithoutData() (items []item, err error) {
	byPlace := map[packRef]int{}
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
			switch done, err := w.writeOneWithoutData(root, at, s); {
			case err != nil:
				return err
			case done:
				continue
			}
			key := packRef{s.There.At, s.There.Size, s.There.Sum.SHA256}
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

// writeOneWithoutData executes one step if it needs no bytes from the store. It reports whether the step is done.
func (w *writer) writeOneWithoutData(root int, at *parents, s *Step) (done bool, err error) {
	if s.There.Kind == Link {
		return true, w.writeLink(at, s)
	}
	if s.Act == Down && s.Here != nil && s.Here.content(s.There) {
		stamp, err := setFile(root, s.Path, s.There)
		switch {
		case err == nil:
			w.stamps[s.there] = stamp
			return true, nil
		case errors.Is(err, errLinked), errors.Is(err, errNotRegular), gone(err), unreadable(err): // write the file again
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
	return true, w.writeFile(at, s, func(int) error { return nil })
}

func sumOf(data []byte) Sum { return Sum{sha256.Sum256(data), md5.Sum(data)} }

// writeSpan reads one range of a pack and writes its files. It calls the store as the user of this process, and writes
// the files as their owner.
func (w *writer) writeSpan(ctx context.Context, s *span) error {
	pack := w.there.Packs[s.pack]
	o, err := w.getPack(ctx, pack.Key, blob.GetOptions{Offset: s.from, Length: s.to - s.from})
	if err != nil {
		return fmt.Errorf("read %s: %w", pack.Key, err)
	}
	defer o.Body.Close()
	return w.tree.Run(func(root int) error {
		at := newParents(root)
		defer at.close()
		return w.writeItems(ctx, at, s, pack, o.Body)
	})
}

func (w *writer) writeItems(ctx context.Context, at *parents, s *span, pack Pack, body io.Reader) error {
	offset := s.from
	buf, reported := make([]byte, s.most()), int64(0)
	for i := range s.items {
		it := &s.items[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, body, it.e.At.Offset-offset); err != nil {
			return fmt.Errorf("read %s: %w", pack.Key, err)
		}
		if err := w.writeItem(at, it, body, buf, &reported); err != nil {
			return err
		}
		offset = it.e.At.Offset + it.e.Size
		w.moved.Add(it.e.Size)
		w.Progress.finished(it.e.Size, &reported)
	}
	return nil
}

// writeItem reads the bytes of one file and executes all steps that write them.
func (w *writer) writeItem(at *parents, it *item, body io.Reader, buf []byte, reported *int64) error {
	if it.e.Size >= largeFile {
		passing := &flow{body, w.Progress, it.e.Size, reported}
		return w.writeFile(at, it.steps[0], func(fd int) error { return copyLarge(fd, it.e, passing, buf) })
	}
	data := buf[:it.e.Size]
	if _, err := io.ReadFull(body, data); err != nil {
		return fmt.Errorf("read the bytes of %s: %w", it.e.Path, err)
	}
	if err := it.e.verifyData(data); err != nil {
		return err
	}
	for _, s := range it.steps {
		s.There.Sum = it.e.Sum
		if err := w.writeFile(at, s, func(fd int) error { return writeSmall(fd, data) }); err != nil {
			return err
		}
	}
	return nil
}

// verifyData compares data with the checksums of the entry. It sets missing checksums.
func (e *Entry) verifyData(data []byte) error {
	sum := Sum{SHA256: sha256.Sum256(data)}
	if e.Sum.SHA256 == none.SHA256 {
		sum.MD5 = md5.Sum(data)
	}
	return e.verifySum(sum)
}

// verifySum compares computed checksums with the checksums of the entry. It sets missing ones: a version of another
// tool may have only MD5, or no checksum.
func (e *Entry) verifySum(got Sum) error {
	switch {
	case e.Sum.SHA256 != none.SHA256:
		if got.SHA256 != e.Sum.SHA256 {
			return corruptFile(e)
		}
		return nil
	case e.Sum.MD5 != none.MD5 && got.MD5 != e.Sum.MD5:
		return corruptFile(e)
	}
	e.Sum = got
	return nil
}

// corruptFile returns the error for a file whose stored bytes do not match its checksum.
func corruptFile(e *Entry) error {
	return fault.Errorf("restore", api.CodeBadManifest, "the stored bytes of %s are not those that were saved", clip(e.Path))
}

// copyLarge copies the bytes of a large file from body to fd. Blocks of zeros become holes.
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
			err = writeFull(fd, buf[:n])
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return e.verifySum(sums.sum())
}

// writeSmall writes a whole file. Long runs of zeros become holes.
func writeSmall(fd int, data []byte) error {
	extents := dataExtents(data)
	if !worthwhile(extents, int64(len(data))) {
		return writeFull(fd, data)
	}
	for _, x := range extents {
		if _, err := unix.Seek(fd, x.from, io.SeekStart); err != nil {
			return err
		}
		if err := writeFull(fd, data[x.from:x.to]); err != nil {
			return err
		}
	}
	return unix.Ftruncate(fd, int64(len(data)))
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
