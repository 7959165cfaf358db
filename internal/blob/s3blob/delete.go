package s3blob

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/blob"
)

// maxDeletes is the maximum number of keys in one S3 request.
const maxDeletes = 1000

// Delete removes objects; see [blob.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := blob.CheckKey(key); err != nil {
			return err
		}
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(4)
	for batch := range slices.Chunk(keys, maxDeletes) {
		work.Go(func() error {
			if err := s.deleteBatch(ctx, batch); err != nil {
				return s.explain("delete object", batch[0], err)
			}
			return nil
		})
	}
	return work.Wait()
}

func (s *Store) deleteBatch(ctx context.Context, keys []string) error {
	if len(keys) == 1 {
		return s.deleteOne(ctx, keys[0])
	}
	names := make([]types.ObjectIdentifier, len(keys))
	for n, key := range keys {
		names[n].Key = s.name(key)
	}
	out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: s.bucket(), Delete: &types.Delete{Objects: names},
	}, s.call(ctx).with, withMD5)
	switch {
	case code(err) == "NotImplemented" || code(err) == "MethodNotAllowed":
		return s.deleteEach(ctx, keys)
	case err != nil:
		return err
	}
	return s.deleted(ctx, keys, out)
}

// withMD5 adds the Content-MD5 header, which some servers require for this request.
func withMD5(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
}

// deleted deletes the keys that the response does not confirm one by one, to get their errors.
func (s *Store) deleted(ctx context.Context, keys []string, out *s3.DeleteObjectsOutput) error {
	gone := map[string]bool{}
	for _, o := range out.Deleted {
		gone[aws.ToString(o.Key)] = true
	}
	return s.deleteEach(ctx, slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return gone[*s.name(key)] }))
}

func (s *Store) deleteEach(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := s.deleteOne(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteOne(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: s.name(key)}, s.call(ctx).with)
	if noSuchKey(err) {
		return nil
	}
	return err
}
