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

// maxChecked is the maximum size of an object for PutChecked. It is small enough to send the object again if the
// connection breaks.
const maxChecked = 128 << 20

// maxCheckedTries is the maximum number of attempts of PutChecked. It is small, because callers then use Put, which
// sends a large object in parts.
const maxCheckedTries = 3

// CheckedMost implements [blob.Checked].
func (s *Store) CheckedMost() int64 { return maxChecked }

// PutChecked writes an object with known checksums; see [blob.Checked]. The request is signed with the SHA-256, so
// that the server refuses other bytes. The CRC32C is stored with the object; otherwise S3 would compute its own
// checksum. If the server refuses the CRC32C, later calls leave it out.
func (s *Store) PutChecked(ctx context.Context, key string, r io.ReaderAt, size int64, sums blob.Sums) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	in := &s3.PutObjectInput{
		Bucket: s.bucket(), Key: s.name(key), Body: io.NewSectionReader(r, 0, size), ContentLength: aws.Int64(size),
		ServerSideEncryption: s.encryption(), SSEKMSKeyId: s.kmsKey(),
	}
	if !s.refusesCRC.Load() {
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sums.CRC32C)))
	}
	c := s.call(ctx)
	c.most = maxCheckedTries
	_, err := s.client.PutObject(ctx, in, c.with, s3.WithAPIOptions(signedWith(sums.SHA256)))
	if err != nil {
		if at := status(err); at == http.StatusBadRequest || at == http.StatusNotImplemented {
			s.refusesCRC.Store(true)
		}
		return s.explain("put object", key, err)
	}
	return nil
}

// signedWith makes the SDK sign a request with a known SHA-256.
func signedWith(sum [32]byte) func(*middleware.Stack) error {
	know := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		return next.HandleInitialize(v4.SetPayloadHash(ctx, hex.EncodeToString(sum[:])), in)
	}
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("BerthKnownChecksum", know), middleware.Before)
	}
}
