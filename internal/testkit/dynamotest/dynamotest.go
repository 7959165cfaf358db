// Package dynamotest runs a private DynamoDB server for tests: dynalite, on Node.js.
//
//   - [New] gives a test a unique table name on a server that all tests of the process share.
//   - [Start] starts a separate server, which a test may kill and start again.
//   - [Before] starts a proxy in front of a server that makes chosen requests fail.
//
// The server comes from a pinned npm package in bin/tests. It ends with the process that started it. The
// credentials are fixed and only for tests.
package dynamotest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/berthdev/berth/internal/testkit/s3test"
)

// Version is the version of dynalite.
const Version = "4.0.0"

// Table is a unique table name for one test, and the server to create the table on.
type Table struct {
	Name     string
	Endpoint string // http://127.0.0.1:port
}

// URL returns the table's address in the form of the setting message_store.
func (b Table) URL() string {
	return fmt.Sprintf("dynamodb://%s?endpoint=%s&region=%s", b.Name, url.QueryEscape(b.Endpoint), s3test.Region)
}

// New returns an unused table name for t on the process's shared server. It deletes the table when t ends.
func New(t testing.TB) Table {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("dynamotest: %v", err)
	}
	return s.Table(t)
}

var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := &Server{}
	return s, s.start(ctx)
})

// Table returns an unused table name for t. It deletes the table when t ends.
func (s *Server) Table(t testing.TB) Table {
	b := Table{Name: "test-" + rand.Text(), Endpoint: s.Endpoint}
	t.Cleanup(func() {
		// A table that was never made, or whose server is gone, needs no deleting.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = b.Client().DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &b.Name})
	})
	return b
}

// Client returns a DynamoDB client for the table's endpoint. It does not retry.
func (b Table) Client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: s3test.Region, BaseEndpoint: &b.Endpoint, RetryMaxAttempts: 1,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(s3test.AccessKey, s3test.SecretKey, "")),
	})
}

// Setenv sets the credentials in the environment of the test's process.
func Setenv(t testing.TB) {
	t.Helper()
	for name, value := range Env() {
		t.Setenv(name, value)
	}
}

// Env returns the credentials as environment variables. They keep the AWS SDK from looking for others in files or on
// the network.
func Env() map[string]string {
	env := maps.Clone(s3test.Env())
	env["AWS_ENDPOINT_URL_DYNAMODB"] = ""
	return env
}

// Start starts a server for t with tables on disk, which survive Kill.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.start(ctx); err != nil {
		t.Fatalf("dynamotest: %v", err)
	}
	t.Cleanup(s.Kill)
	return s
}
