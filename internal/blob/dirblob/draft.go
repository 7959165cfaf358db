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

// draft is a file in tmp that has no object name yet.
type draft struct {
	folder folder
	name   string
	file   output // nil for a hard link to the file of an object
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

// finish sets the file's time, syncs the file, and sets the draft's tag.
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

// discard removes the draft's name. An object made from the draft has another name. If the removal fails, sweep
// removes the name later.
func (d *draft) discard() {
	if d.file != nil {
		_ = d.file.Close()
	}
	_ = d.folder.unlink(d.name)
}

// copyBuffer is the size of the copy buffer if the kernel cannot copy. copyPiece is the number of bytes that the
// kernel copies between two checks of the context.
const (
	copyBuffer = 256 << 10
	copyPiece  = 64 << 20
)

// write creates a draft from the first size bytes of r. The draft is synced.
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

// errShort is returned if a reader has fewer bytes than Put was called with.
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

// fillBytes writes the bytes of a bytes.Reader.
func fillBytes(w io.Writer, r *bytes.Reader, size int64) (int64, error) {
	if int64(r.Len()) == size {
		return r.WriteTo(w)
	}
	return io.Copy(w, io.LimitReader(r, size))
}

// fillFile copies from a file to a file inside the kernel, if the kernel supports it.
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

// unreadable is an error of the caller's reader, not of the store.
type unreadable struct{ error }

func (u *unreadable) Unwrap() error { return u.error }

// sweep removes files in tmp that were written before the given time.
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
			_ = s.tmp.unlink(name) // unlink removes only files; a folder here was not made by the store
		}
	}
	return nil
}
