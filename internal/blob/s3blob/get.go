package s3blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

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
	object, err := s.get(ctx, key, o)
	if errors.Is(err, blob.ErrRange) && o.Offset == 0 {
		// S3 refuses every range of an empty object.
		object, err = s.get(ctx, key, blob.GetOptions{IfNoneMatch: o.IfNoneMatch})
	}
	if err != nil {
		return nil, s.explain(op, key, err)
	}
	return object, nil
}

func (s *Store) get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	in := &s3.GetObjectInput{Bucket: s.bucket(), Key: s.name(key), Range: rangeOf(o.Offset, o.Length)}
	if o.IfNoneMatch != "" {
		in.IfNoneMatch = aws.String(string(o.IfNoneMatch))
	}
	out, err := s.client.GetObject(ctx, in, s.call(ctx).with)
	if err != nil {
		return nil, toBlobError(err)
	}
	size, err := sizeOf(out, o.Offset)
	if err != nil {
		_ = out.Body.Close()
		return nil, err
	}
	b := &body{s: s, ctx: ctx, key: key, tag: out.ETag, open: out.Body, at: o.Offset, left: *out.ContentLength}
	object := &blob.Object{Body: b, Size: size, Tag: blob.Tag(*out.ETag)}
	if out.LastModified != nil {
		object.At = *out.LastModified
	}
	return object, nil
}

// head reads the metadata of an object.
func (s *Store) head(ctx context.Context, key string) (*s3.HeadObjectOutput, error) {
	c := s.call(ctx)
	c.head = true
	return s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket(), Key: s.name(key)}, c.with)
}

func rangeOf(offset, length int64) *string {
	switch {
	case length > 0:
		return aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		return aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	return nil
}

// toBlobError converts errors of S3 to errors of package blob.
func toBlobError(err error) error {
	switch at := status(err); {
	case at == http.StatusNotModified:
		return blob.ErrNotModified
	case at == http.StatusRequestedRangeNotSatisfiable:
		return blob.ErrRange
	case noSuchKey(err):
		return blob.ErrNotFound
	}
	return err
}

// noSuchKey reports whether the store says that the object does not exist. A 404 alone does not mean that: it may
// concern the bucket or an access key, or come from a web server that is not S3.
func noSuchKey(err error) bool { return status(err) == http.StatusNotFound && code(err) == "NoSuchKey" }

// sizeOf returns the size of the whole object. It returns an error if the response has another range than
// requested.
func sizeOf(out *s3.GetObjectOutput, offset int64) (int64, error) {
	if out.ContentRange == nil {
		if offset > 0 {
			return 0, errors.New("the store does not read parts of objects")
		}
		return *out.ContentLength, nil
	}
	var from, to, size int64
	if _, err := fmt.Sscanf(*out.ContentRange, "bytes %d-%d/%d", &from, &to, &size); err != nil || from != offset || to-from+1 != *out.ContentLength || to >= size {
		return 0, fmt.Errorf("the store answers with the range %q for one from %d", *out.ContentRange, offset)
	}
	return size, nil
}

// body reads a part of an object. If the connection breaks, body requests the rest of the same object version,
// until the part is complete.
type body struct {
	s        *Store
	ctx      context.Context
	key      string
	tag      *string
	open     io.ReadCloser // nil if the connection broke
	at, left int64
	broken   int   // number of consecutive breaks without a byte in between
	failure  error // error that ended the body for good
}

func (b *body) Read(p []byte) (int, error) {
	for b.failure == nil {
		if b.left == 0 {
			return 0, io.EOF
		}
		if b.open == nil {
			if err := b.resume(); err != nil {
				b.failure = b.s.explain("read object", b.key, err)
				break
			}
		}
		n, err := b.open.Read(p[:min(int64(len(p)), b.left)])
		b.at, b.left = b.at+int64(n), b.left-int64(n)
		if n > 0 {
			b.broken = 0
		}
		if err != nil && b.left > 0 {
			b.breakOff(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.failure
}

func (b *body) breakOff(err error) {
	_ = b.open.Close()
	b.open = nil
	b.broken++
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if b.ctx.Err() != nil || b.broken > b.s.limits.broken {
		b.failure = b.s.explain("read object", b.key, err)
	}
}

// resume requests the bytes that are not read yet.
func (b *body) resume() error {
	select {
	case <-time.After(b.s.pause(b.broken)):
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	out, err := b.s.client.GetObject(b.ctx, &s3.GetObjectInput{
		Bucket: b.s.bucket(), Key: b.s.name(b.key), Range: rangeOf(b.at, b.left), IfMatch: b.tag,
	}, b.s.call(b.ctx).with)
	switch {
	case err == nil:
	case status(err) == http.StatusPreconditionFailed, noSuchKey(err):
		return errors.New("the object was replaced while it was read")
	default:
		return err
	}
	if _, err := sizeOf(out, b.at); err != nil || *out.ContentLength != b.left || *out.ETag != *b.tag {
		_ = out.Body.Close()
		return errors.Join(err, errors.New("the store gives another part than the one asked for"))
	}
	b.open = out.Body
	return nil
}

func (b *body) Close() error {
	if b.failure == nil {
		b.failure = errors.New("read object " + b.key + ": it is closed")
	}
	if b.open == nil {
		return nil
	}
	err := b.open.Close()
	b.open = nil
	return err
}
