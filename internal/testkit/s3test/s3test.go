// Package s3test runs a private S3 server for tests: versitygw, which stores objects as files.
//
//   - [New] gives a test a new bucket on a server that all tests of the process share.
//   - [Start] starts a separate server with options, and [Open] a server for a program that is not a test.
//   - [Proxy] starts a proxy in front of a server that makes some requests fail.
//
// The server is built once from a pinned module and kept in bin/tests. When the process that started it ends, the
// server ends too and its files are removed. The credentials are fixed and only for tests.
package s3test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// Credentials and region of every server.
const (
	AccessKey = "berth-test-access"
	SecretKey = "berth-test-secret-key"
	Region    = "us-east-1"
)

// Bucket is a bucket for one test.
type Bucket struct {
	Name     string
	Endpoint string // http://127.0.0.1:port
}

// URL returns the address of a prefix in the bucket, in the form of the setting object_store.
func (b Bucket) URL(prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&region=%s", b.Name, prefix, url.QueryEscape(b.Endpoint), Region)
}

// New makes an empty bucket for t on the process's shared server.
func New(t testing.TB) Bucket {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("s3test: %v", err)
	}
	return s.Bucket(t)
}

var shared = sync.OnceValues(func() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return start(ctx, Options{})
})

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
	return map[string]string{
		"AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": SecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// Options configures a server.
type Options struct {
	Dir  string   // directory of the server's files; empty: a temporary directory
	Args []string // additional options of versitygw
}

// Start starts a server and closes it when t ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := start(ctx, o)
	if err != nil {
		t.Fatalf("s3test: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("s3test: %v", err)
		}
	})
	return s
}

// Open starts a server that the caller closes.
func Open(ctx context.Context, o Options) (*Server, error) { return start(ctx, o) }

// Bucket makes an empty bucket and removes it when t ends. It makes the bucket's folder without a request to the server.
func (s *Server) Bucket(t testing.TB) Bucket {
	t.Helper()
	b := Bucket{Name: "test-" + strings.ToLower(rand.Text()), Endpoint: s.Endpoint}
	if err := os.Mkdir(filepath.Join(s.dir, "data", b.Name), 0o755); err != nil {
		t.Fatalf("s3test: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(s.dir, "data", b.Name)) })
	return b
}

// Dir returns the directory in which the bucket's objects are files.
func (s *Server) Dir(b Bucket) string { return filepath.Join(s.dir, "data", b.Name) }

func program() (string, error) {
	return testkit.BuildTool("github.com/versity/versitygw/cmd/versitygw")
}

var health = &http.Client{Timeout: 5 * time.Second}
