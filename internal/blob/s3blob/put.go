package s3blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/berthdev/berth/internal/blob"
)

// Put writes an object; see [blob.Store].
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	switch {
	case size < 0:
		return "", fmt.Errorf("put object %s: a size of %d", key, size)
	case o.IfAbsent && o.IfMatch != "":
		return "", fmt.Errorf("put object %s: it cannot be both absent and in a state", key)
	}
	if err := blob.CheckKey(key); err != nil {
		return "", err
	}
	put := s.putWhole
	if size > s.limits.whole {
		put = s.putParts
	}
	tag, err := put(ctx, key, r, size, o)
	if err != nil {
		return "", s.explain("put object", key, err)
	}
	return tag, nil
}

// putWhole sends an object in one request.
func (s *Store) putWhole(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	body, free, err := s.load(ctx, r, size)
	if err != nil {
		return "", err
	}
	defer free()
	w := newWrite(o)
	in := &s3.PutObjectInput{
		Bucket: s.bucket(), Key: s.name(key), Body: body, ContentLength: aws.Int64(size), Metadata: w.metadata(),
		IfNoneMatch: w.ifNoneMatch(), IfMatch: w.ifMatch(), ServerSideEncryption: s.encryption(), SSEKMSKeyId: s.kmsKey(),
	}
	c := s.call(ctx)
	out, err := s.client.PutObject(ctx, in, c.with)
	if err != nil {
		return s.settle(ctx, key, w, c, err)
	}
	return blob.Tag(*out.ETag), nil
}

// load returns the next size bytes of r as a seekable reader. A bytes.Reader is used directly. The bytes of other
// readers are buffered, because they must be signed before they are sent.
func (s *Store) load(ctx context.Context, r io.Reader, size int64) (body io.ReadSeeker, free func(), err error) {
	if memory, ok := r.(*bytes.Reader); ok {
		from := memory.Size() - int64(memory.Len())
		if int64(memory.Len()) < size {
			return nil, nil, short(int64(memory.Len()), size)
		}
		_, err := memory.Seek(size, io.SeekCurrent)
		return io.NewSectionReader(memory, from, size), func() {}, err
	}
	weight := min(size, maxMemory)
	if err := s.memory.Acquire(ctx, weight); err != nil {
		return nil, nil, err
	}
	buffer := make([]byte, size)
	if n, err := io.ReadFull(r, buffer); err != nil {
		s.memory.Release(weight)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, nil, short(int64(n), size)
		}
		return nil, nil, &unreadable{err}
	}
	return bytes.NewReader(buffer), func() { s.memory.Release(weight) }, nil
}

func short(got, want int64) error {
	return &unreadable{fmt.Errorf("there was less to read than said: %d of %d bytes: %w", got, want, io.ErrUnexpectedEOF)}
}

// refused reports whether the store refused a condition. For IfMatch on a missing object, S3 reports that the
// object is missing.
func refused(err error, o blob.PutOptions) bool {
	return status(err) == http.StatusPreconditionFailed || o.IfMatch != "" && noSuchKey(err)
}

// errUnsure is returned for a write if it is unknown whether it took effect.
var errUnsure = errors.New("the answer was lost, and the object does not tell whether it was written")
