package s3blob

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/berthdev/berth/internal/blob"
)

var _ blob.Checked = (*Store)(nil)

// maxChecked is small enough to be sent anew when the connection breaks.
const maxChecked = 128 << 20

// maxCheckedTries is few: in parts, a large object is more likely to arrive.
const maxCheckedTries = 3

// CheckedMost implements [blob.Checked].
func (s *Store) CheckedMost() int64 { return maxChecked }

// PutChecked writes an object whose checksums are known; see [blob.Checked]. The request is signed with the
// one, and the server refuses other bytes. The other it keeps: S3 computes one of its own where none is
// given. A server that does not know of such is not told again.
func (s *Store) PutChecked(ctx context.Context, key string, r io.ReaderAt, size int64, sums blob.Sums) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	in := &s3.PutObjectInput{
		Bucket: s.bucket(), Key: s.name(key), Body: io.NewSectionReader(r, 0, size), ContentLength: aws.Int64(size),
		ServerSideEncryption: s.encryption(), SSEKMSKeyId: s.kmsKey(),
	}
	if !s.plain.Load() {
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sums.CRC32C)))
	}
	c := s.call(ctx)
	c.most = maxCheckedTries
	_, err := s.client.PutObject(ctx, in, c.with, s3.WithAPIOptions(signedWith(sums.SHA256)))
	if err != nil {
		if at := status(err); at == http.StatusBadRequest || at == http.StatusNotImplemented {
			s.plain.Store(true)
		}
		return s.explain("put object", key, err)
	}
	return nil
}

// signedWith signs a request with a checksum that is known.
func signedWith(sum [32]byte) func(*middleware.Stack) error {
	know := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		return next.HandleInitialize(v4.SetPayloadHash(ctx, hex.EncodeToString(sum[:])), in)
	}
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("BerthKnownChecksum", know), middleware.Before)
	}
}
