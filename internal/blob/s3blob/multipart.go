package s3blob

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
)

// upload is an object that is being sent in parts. It is not visible before it is complete.
type upload struct {
	s     *Store
	key   string
	id    *string
	write *write
	mu    sync.Mutex
	parts []types.CompletedPart
}

// putParts sends a large object in concurrent parts.
func (s *Store) putParts(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	return s.inParts(ctx, key, newWrite(o), size, s.limits.part, func(ctx context.Context, u *upload, work *errgroup.Group, part int64) error {
		for n, left := 1, size; left > 0; n, left = n+1, left-part {
			body, free, err := s.load(ctx, r, min(part, left))
			if err != nil {
				return err
			}
			work.Go(func() error {
				defer free()
				return u.send(ctx, int32(n), body)
			})
		}
		return nil
	})
}

// inParts starts an upload, calls send to send its parts, and completes or aborts the upload.
func (s *Store) inParts(ctx context.Context, key string, w *write, size, part int64, send func(context.Context, *upload, *errgroup.Group, int64) error) (blob.Tag, error) {
	const mega = 1 << 20
	part = max(part, (size/maxParts+mega)/mega*mega)
	u, err := s.begin(ctx, key, w)
	if err != nil {
		return "", err
	}
	u.parts = make([]types.CompletedPart, (size+part-1)/part)
	work, sending := errgroup.WithContext(ctx)
	work.SetLimit(s.limits.parts)
	err = send(sending, u, work, part)
	if failed := work.Wait(); failed != nil && !errors.As(err, new(*unreadable)) {
		err = failed // the cause: it also cancelled the read
	}
	if err != nil {
		u.abort(ctx)
		return "", err
	}
	return u.complete(ctx)
}

func (s *Store) begin(ctx context.Context, key string, w *write) (*upload, error) {
	if w.id == "" {
		w.id = newWrite(blob.PutOptions{IfAbsent: true}).id // an id for settle, because the response to the completion can be lost
	}
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: s.bucket(), Key: s.name(key), Metadata: w.metadata(), ServerSideEncryption: s.encryption(), SSEKMSKeyId: s.kmsKey(),
	}, s.call(ctx).with)
	if err != nil {
		return nil, err
	}
	return &upload{s: s, key: key, id: out.UploadId, write: w}, nil
}

func (u *upload) send(ctx context.Context, n int32, body io.ReadSeeker) error {
	out, err := u.s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: u.s.bucket(), Key: u.s.name(u.key), UploadId: u.id, PartNumber: aws.Int32(n), Body: body,
	}, u.s.call(ctx).with)
	if err != nil {
		return err
	}
	u.addPart(n, out.ETag)
	return nil
}

func (u *upload) addPart(n int32, tag *string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts[n-1] = types.CompletedPart{PartNumber: aws.Int32(n), ETag: tag}
}

func (u *upload) complete(ctx context.Context) (blob.Tag, error) {
	c := u.s.call(ctx)
	out, err := u.s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: u.s.bucket(), Key: u.s.name(u.key), UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
		IfNoneMatch: u.write.ifNoneMatch(), IfMatch: u.write.ifMatch(),
	}, c.with)
	if err == nil {
		return blob.Tag(*out.ETag), nil
	}
	tag, err := u.s.settle(ctx, u.key, u.write, c, err)
	if err != nil {
		u.abort(ctx)
	}
	return tag, err
}

// abort removes the parts that were sent. If it fails, a lifecycle rule of the bucket for incomplete uploads must
// remove them.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_, _ = u.s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: u.s.bucket(), Key: u.s.name(u.key), UploadId: u.id,
	}, u.s.call(ctx).with)
}
