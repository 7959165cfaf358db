package s3blob

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/blobtest"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func options(b s3test.Bucket, prefix string) Options {
	return Options{
		Bucket: b.Name, Prefix: prefix, Endpoint: b.Endpoint, Region: s3test.Region,
		Credentials: credentials.NewStaticCredentialsProvider(s3test.AccessKey, s3test.SecretKey, ""),
	}
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.limits.pause = time.Millisecond
	return s
}

func TestSuite(t *testing.T) {
	blobtest.Run(t, blobtest.Harness{Flat: true, New: func(t *testing.T) blob.Store { return open(t, options(s3test.New(t), "some/prefix")) }})
}
