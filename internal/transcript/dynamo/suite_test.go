package dynamo

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/transcripttest"
)

func options(b dynamotest.Table) Options {
	return Options{
		Table: b.Name, Endpoint: b.Endpoint, Region: s3test.Region,
		Credentials: credentials.NewStaticCredentialsProvider(s3test.AccessKey, s3test.SecretKey, ""),
	}
}

func open(t *testing.T, b dynamotest.Table) *Store {
	t.Helper()
	s, err := Open(t.Context(), options(b))
	if err != nil {
		t.Fatal(err)
	}
	s.limits.pause = time.Millisecond
	return s
}

// made opens a table that is made.
func made(t *testing.T, b dynamotest.Table) *Store {
	t.Helper()
	s := open(t, b)
	if _, err := s.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	testkit.Proves(t, "C5", "C6")
	transcripttest.Run(t, func(t *testing.T) transcript.Store { return made(t, dynamotest.New(t)) })
}

func TestReplicas(t *testing.T) {
	b := dynamotest.New(t)
	transcripttest.Race(t, made(t, b), open(t, b))
}
