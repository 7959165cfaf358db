// Package dynamotest runs a private DynamoDB server for tests: dynalite, on Node.js.
//
//   - [New] gives a test a table's name of its own on a server that all tests of the process share.
//   - [Start] starts a server of the test's own, which it may kill and start again.
//   - [Before] stands before a server and spoils some requests.
//
// The server comes from its pinned npm package, kept in bin/tests. It ends with the process that started
// it, however that ends. The credentials are for tests, the same everywhere, and worth nothing.
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

// Version is dynalite's.
const Version = "4.0.0"

// Table is one test's own place on a server. The table is not made yet.
type Table struct {
	Name     string
	Endpoint string // http://127.0.0.1:port
}

// URL is the table's address, as message_store takes it.
func (b Table) URL() string {
	return fmt.Sprintf("dynamodb://%s?endpoint=%s&region=%s", b.Name, url.QueryEscape(b.Endpoint), s3test.Region)
}

// New names a table for t on the process's shared server, and deletes it at the end.
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

// Table names a table for t.
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

// Client speaks to the table's server directly.
func (b Table) Client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: s3test.Region, BaseEndpoint: &b.Endpoint, RetryMaxAttempts: 1,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(s3test.AccessKey, s3test.SecretKey, "")),
	})
}

// Setenv gives the test's process the credentials, as a server's environment has them.
func Setenv(t testing.TB) {
	t.Helper()
	for name, value := range Env() {
		t.Setenv(name, value)
	}
}

// Env is the credentials as variables of the environment. No file and no other machine is asked.
func Env() map[string]string {
	env := maps.Clone(s3test.Env())
	env["AWS_ENDPOINT_URL_DYNAMODB"] = ""
	return env
}

// Start starts a server for t. What it keeps outlives its being killed.
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
