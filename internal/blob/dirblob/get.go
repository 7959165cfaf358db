package dirblob

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/berthdev/berth/internal/blob"
)

// Get reads an object; see [blob.Store].
func (s *Store) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	const op = "get object"
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	if o.Offset < 0 || o.Length < 0 {
		return nil, fmt.Errorf("%s %s: a range from %d of %d bytes", op, key, o.Offset, o.Length)
	}
	if err := ctx.Err(); err != nil {
		return nil, s.explain(op, key, err)
	}
	at, name := pathOf(key)
	f, st, err := s.objects.open(join(at, name))
	if err != nil {
		return nil, s.explain(op, key, err)
	}
	out := &blob.Object{Size: st.Size, Tag: tagOf(st), At: writtenAt(st)}
	out.Body, err = part(f, out, o)
	if err != nil {
		_ = f.Close()
		return nil, s.explain(op, key, err)
	}
	return out, nil
}

// part returns a reader of the requested part of an open file.
func part(f *os.File, object *blob.Object, o blob.GetOptions) (io.ReadCloser, error) {
	switch {
	case o.IfNoneMatch == object.Tag:
		return nil, blob.ErrNotModified
	case o.Offset > 0 && o.Offset >= object.Size:
		return nil, blob.ErrRange
	}
	b := &body{file: f, left: object.Size - o.Offset}
	if o.Length > 0 {
		b.left = min(b.left, o.Length)
	}
	if o.Offset > 0 {
		if _, err := f.Seek(o.Offset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// body reads a part of a file. Objects never change, so a file that is too short is an error.
type body struct {
	file *os.File
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.file.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// WriteTo copies from a file to a file inside the kernel, if the kernel supports it.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, io.LimitReader(b.file, b.left))
	b.left -= n
	if err == nil && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *body) Close() error { return b.file.Close() }
