// Package s3test runs a private S3 server for tests: versitygw, on files.
//
//   - [New] gives a test a bucket of its own on a server that all tests of the process share.
//   - [Start] starts a server with options of its own, [Open] one for a program that is no test.
//   - [Proxy] stands before a server and spoils some answers.
//
// The server is built from its pinned module once and kept in bin/tests. It ends with the process that
// started it, however that ends, and its files go with it. The credentials are for tests, the same
// everywhere, and worth nothing.
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

// What every server accepts.
const (
	AccessKey = "berth-test-access"
	SecretKey = "berth-test-secret-key"
	Region    = "us-east-1"
)

// Bucket is one test's own place on a server.
type Bucket struct {
	Name     string
	Endpoint string // http://127.0.0.1:port
}

// URL is the address of a prefix in the bucket, as object_store takes it.
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

// Setenv gives the test's process the credentials, as a server's environment has them.
func Setenv(t testing.TB) {
	t.Helper()
	for name, value := range Env() {
		t.Setenv(name, value)
	}
}

// Env is the credentials as variables of the environment. No file and no other machine is asked.
func Env() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": SecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// Options are for a server of one's own.
type Options struct {
	Dir  string   // where its files go; a temporary directory if empty
	Args []string // further options of versitygw, before the backend's name
}

// Start starts a server for t.
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

// Open starts a server that whoever asked for it closes.
func Open(ctx context.Context, o Options) (*Server, error) { return start(ctx, o) }

// Bucket makes an empty bucket. Buckets of this server are folders: nothing is asked of it.
func (s *Server) Bucket(t testing.TB) Bucket {
	t.Helper()
	b := Bucket{Name: "test-" + strings.ToLower(rand.Text()), Endpoint: s.Endpoint}
	if err := os.Mkdir(filepath.Join(s.dir, "data", b.Name), 0o755); err != nil {
		t.Fatalf("s3test: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(s.dir, "data", b.Name)) })
	return b
}

// Dir is where the bucket's objects are files.
func (s *Server) Dir(b Bucket) string { return filepath.Join(s.dir, "data", b.Name) }

func program() (string, error) {
	return testkit.BuildTool("github.com/versity/versitygw/cmd/versitygw")
}

var health = &http.Client{Timeout: 5 * time.Second}
