package dirblob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// draft is a file in tmp that is not an object yet.
type draft struct {
	folder folder
	name   string
	file   output // nil where it is an object's file under one more name
	tag    blob.Tag
}

func (s *Store) draft() (*draft, error) {
	d := &draft{folder: s.tmp, name: rand.Text()}
	var err error
	if d.file, err = s.tmp.create(d.name); err != nil {
		return nil, err
	}
	return d, nil
}

// finish gives the file its time and makes it outlive a power loss.
func (d *draft) finish(at time.Time) error {
	if err := d.file.stamp(at); err != nil {
		return err
	}
	if err := d.file.sync(); err != nil {
		return err
	}
	st, err := d.file.stat()
	if err != nil {
		return err
	}
	d.tag = tagOf(st)
	return nil
}

// discard removes the draft's own name; an object made of it has another one. What cannot be removed is
// swept later.
func (d *draft) discard() {
	if d.file != nil {
		_ = d.file.Close()
	}
	_ = d.folder.unlink(d.name)
}

// copyBuffer is what passes through memory at once, where the kernel does not do it alone; copyPiece is
// what passes between two looks at the context.
const (
	copyBuffer = 256 << 10
	copyPiece  = 64 << 20
)

// write makes a draft of the first size bytes of r, ready to be named.
func (s *Store) write(ctx context.Context, r io.Reader, size int64) (*draft, error) {
	d, err := s.draft()
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, d.file, r, size); err != nil {
		d.discard()
		return nil, err
	}
	if err := d.finish(s.stamps.next()); err != nil {
		d.discard()
		return nil, err
	}
	return d, nil
}

// errShort is a reader that had less than was said.
var errShort = errors.New("there was less to read than said")

func (s *Store) fill(ctx context.Context, w io.Writer, r io.Reader, size int64) error {
	var n int64
	var err error
	switch from := r.(type) {
	case *bytes.Reader:
		n, err = fillBytes(w, from, size)
	case *os.File:
		n, err = fillFile(ctx, w, from, size)
	default:
		n, err = s.fillPlain(ctx, w, r, size)
	}
	switch {
	case err != nil:
		return err
	case n < size:
		return fmt.Errorf("%w: %d of %d bytes: %w", errShort, n, size, io.ErrUnexpectedEOF)
	}
	return ctx.Err()
}

// fillBytes writes memory at once.
func fillBytes(w io.Writer, r *bytes.Reader, size int64) (int64, error) {
	if int64(r.Len()) == size {
		return r.WriteTo(w)
	}
	return io.Copy(w, io.LimitReader(r, size))
}

// fillFile lets the kernel copy from file to file.
func fillFile(ctx context.Context, w io.Writer, r *os.File, size int64) (n int64, err error) {
	for n < size && err == nil {
		var piece int64
		piece, err = io.Copy(w, io.LimitReader(r, min(copyPiece, size-n)))
		n += piece
		if err == nil {
			err = ctx.Err()
		}
		if piece == 0 {
			break
		}
	}
	return n, err
}

func (s *Store) fillPlain(ctx context.Context, w io.Writer, r io.Reader, size int64) (n int64, err error) {
	buffer := s.copying.Get().(*[copyBuffer]byte)
	defer s.copying.Put(buffer)
	for n < size {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		got, err := io.ReadFull(r, buffer[:min(copyBuffer, size-n)])
		if _, werr := w.Write(buffer[:got]); werr != nil {
			return n, werr
		}
		n += int64(got)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return n, nil
		case err != nil:
			return n, &unreadable{err}
		}
	}
	return n, nil
}

// unreadable is a failure of the reader whose bytes were to be put, which says nothing about the store.
type unreadable struct{ error }

func (u *unreadable) Unwrap() error { return u.error }

// sweep removes what dead writers left in tmp.
func (s *Store) sweep(ctx context.Context, before time.Time) error {
	for names, err := range s.tmp.names() {
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			var st unix.Stat_t
			err := unix.Fstatat(s.tmp.descriptor(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err != nil || !writtenAt(&st).Before(before) {
				continue
			}
			_ = s.tmp.unlink(name) // a folder stays: it is not ours
		}
	}
	return nil
}
