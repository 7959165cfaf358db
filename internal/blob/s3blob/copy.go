package s3blob

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
)

// Copy copies an object to another key; see [blob.Store]. The server copies the bytes.
func (s *Store) Copy(ctx context.Context, from, to string) error {
	if err := errors.Join(blob.CheckKey(from), blob.CheckKey(to)); err != nil {
		return err
	}
	_, err := s.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: s.bucket(), Key: s.name(to), CopySource: s.copySource(from), ServerSideEncryption: s.encryption(), SSEKMSKeyId: s.kmsKey(),
	}, s.call(ctx).with)
	if err != nil {
		err = toBlobError(err)
	}
	// Above 5 GiB the server requires a copy in parts.
	if code(err) == "InvalidRequest" || code(err) == "EntityTooLarge" {
		err = s.copyParts(ctx, from, to, err)
	}
	if err != nil {
		return s.explain("copy object "+from+" to", to, err)
	}
	return nil
}

// copyParts copies an object in parts. If the object is small enough for one request, it returns reason, the error
// of that request.
func (s *Store) copyParts(ctx context.Context, from, to string, reason error) error {
	whole, err := s.head(ctx, from)
	if err != nil {
		return err
	}
	size := *whole.ContentLength
	if size <= s.limits.copyPart {
		return reason
	}
	_, err = s.inParts(ctx, to, newWrite(blob.PutOptions{}), size, s.limits.copyPart, func(ctx context.Context, u *upload, work *errgroup.Group, part int64) error {
		for n, at := int32(1), int64(0); at < size; n, at = n+1, at+part {
			last := min(at+part, size) - 1
			work.Go(func() error { return u.copy(ctx, n, from, whole.ETag, at, last) })
		}
		return nil
	})
	return err
}

func (u *upload) copy(ctx context.Context, n int32, from string, tag *string, first, last int64) error {
	out, err := u.s.client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{
		Bucket: u.s.bucket(), Key: u.s.name(u.key), UploadId: u.id, PartNumber: aws.Int32(n),
		CopySource: u.s.copySource(from), CopySourceIfMatch: tag, CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", first, last)),
	}, u.s.call(ctx).with)
	if err != nil {
		return err
	}
	u.addPart(n, out.CopyPartResult.ETag)
	return nil
}
