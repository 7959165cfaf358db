package s3blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// each calls every operation of a store that cannot work.
func each(s *Store) map[string]error {
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["put"] = s.Put(ctx, "k/x", strings.NewReader("text"), 4, blob.PutOptions{})
	_, errs["put if absent"] = s.Put(ctx, "k/x", strings.NewReader("text"), 4, blob.PutOptions{IfAbsent: true})
	_, errs["put in parts"] = s.Put(ctx, "k/x", strings.NewReader(strings.Repeat("x", 17<<20)), 17<<20, blob.PutOptions{})
	_, errs["get"] = s.Get(ctx, "k/x", blob.GetOptions{})
	_, errs["get a part"] = s.Get(ctx, "k/x", blob.GetOptions{Offset: 3, Length: 4})
	errs["copy"] = s.Copy(ctx, "k/x", "k/y")
	errs["delete"] = s.Delete(ctx, "k/x")
	errs["delete many"] = s.Delete(ctx, "k/x", "k/y")
	for _, err := range s.List(ctx, "k/", blob.ListOptions{}) {
		errs["list"] = err
	}
	_, errs["probe"] = blob.Probe(ctx, s)
	return errs
}

// TestErrorsSayWhatToDo has a server, or something in its place, refuse in every way.
func TestErrorsSayWhatToDo(t *testing.T) {
	testkit.Proves(t, "S13")
	b := s3test.New(t)
	other := func(change func(*Options)) Options {
		o := options(b, "p")
		change(&o)
		return o
	}
	says := func(status int, code, message string) func(*Options) {
		return func(o *Options) {
			o.Endpoint = canned(t, status, nil, fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", code, message))
		}
	}
	readonly := s3test.Start(t, s3test.Options{Args: []string{"--readonly"}})
	for name, c := range map[string]struct {
		o    Options
		code api.Code
		says string
		skip string // operations that this cannot keep from working
	}{
		"wrong secret": {other(func(o *Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(s3test.AccessKey, "hunter2hunter2", "")
		}), api.CodeBlobCredentials, "SignatureDoesNotMatch", ""},
		"wrong access key": {other(func(o *Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider("nobody", "hunter2hunter2", "")
		}), api.CodeBlobCredentials, "XAdminUserNotFound", ""},
		"no bucket":    {other(func(o *Options) { o.Bucket = "no-such-bucket" }), api.CodeBlobNoBucket, "NoSuchBucket", ""},
		"other region": {other(func(o *Options) { o.Region = "eu-west-1" }), api.CodeBlobRegion, "region=us-east-1", ""},
		"denied":       {options(readonly.Bucket(t), "p"), api.CodeBlobDenied, "AccessDenied", "get get a part list"},
		"nobody there": {other(func(o *Options) { o.Endpoint = "http://" + testkit.RefusingAddress(t) }), api.CodeBlobUnreachable, "connection refused", ""},
		"no TLS":       {other(func(o *Options) { o.Endpoint = "https" + strings.TrimPrefix(o.Endpoint, "http") }), api.CodeBlobUnreachable, "http://", ""},
		"untrusted":    {other(func(o *Options) { o.Endpoint = overTLS(t) }), api.CodeBlobUnreachable, "not trusted", ""},
		"clock":        {other(says(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")), api.CodeBlobClock, "here it is", ""},
		"redirected": {other(func(o *Options) {
			o.Endpoint = canned(t, 301, http.Header{"X-Amz-Bucket-Region": {"eu-central-1"}}, "")
		}), api.CodeBlobRegion, "eu-central-1", ""},
		"malformed":     {other(says(400, "AuthorizationHeaderMalformed", "the key is wrong")), api.CodeBlobCredentials, "the key is wrong", ""},
		"expired token": {other(says(400, "ExpiredToken", "The provided token has expired.")), api.CodeBlobCredentials, "expired", ""},
		"bare 403":      {other(func(o *Options) { o.Endpoint = canned(t, 403, nil, "") }), api.CodeBlobDenied, "403", ""},
		"full":          {other(says(507, "XMinioStorageFull", "no space")), api.CodeBlobFull, "no space", ""},
		"odd":           {other(says(400, "InvalidArgument", "no idea")), api.CodeBlobRefused, "no idea", ""},
		"busy":          {other(says(503, "SlowDown", "Reduce your request rate.")), api.CodeBlobUnreachable, "SlowDown", ""},
		"no S3":         {other(func(o *Options) { o.Endpoint = canned(t, 200, nil, "<html>welcome</html>") }), api.CodeBlobUnreachable, "", "delete delete many"},
		"web server":    {other(func(o *Options) { o.Endpoint = canned(t, 404, nil, "<html>no such page</html>") }), api.CodeBlobRefused, "404", ""},
		"bare 404":      {other(func(o *Options) { o.Endpoint = canned(t, 404, nil, "") }), api.CodeBlobRefused, "404", ""},
		"empty":         {other(func(o *Options) { o.Endpoint = canned(t, 200, nil, "") }), api.CodeBlobUnreachable, "", "delete delete many"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.o)
			s.limits.pause = time.Microsecond
			for op, err := range each(s) {
				for try := 0; try < 5 && bare403(err) && name != "bare 403"; try++ {
					err = each(s)[op]
				}
				if err == nil && strings.Contains(c.skip, op) || errors.Is(err, blob.ErrNotFound) && strings.Contains(c.skip, op) {
					continue
				}
				var e *fault.Error
				if !errors.As(err, &e) || e.Code != c.code || e.Retry != e.Code.Info().Retryable {
					t.Errorf("%s: %v (%s)", op, err, fault.CodeOf(err))
					continue
				}
				text := e.Error() + " " + e.Hint
				if !strings.Contains(text, c.says) || !strings.Contains(text, c.o.Bucket) || strings.Contains(text, "hunter2") {
					t.Errorf("%s says %s", op, text)
				}
			}
		})
	}
}

// canned is a server that gives every request the same answer, for what no real one can be made to say.
func canned(t *testing.T, status int, header http.Header, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func overTLS(t *testing.T) string {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// A region that is wrong is often a host that does not exist.
func TestHostsThatDoNotAnswer(t *testing.T) {
	o := options(s3test.Bucket{Name: "some.bucket"}, "")
	o.Region = "nowhere-1"
	s := open(t, o)
	missing := &net.DNSError{Name: "s3.nowhere-1.example", IsNotFound: true}
	if isTemporary(missing) || !isTemporary(&net.DNSError{IsTimeout: true}) {
		t.Error("a host that does not exist is tried again, or one whose name could not be found is not")
	}
	for _, c := range []struct {
		err  error
		says string
	}{{missing, "s3.nowhere-1.example"}, {&net.OpError{Op: "dial", Err: errors.New("no route")}, "AWS in region nowhere-1"}} {
		var e *fault.Error
		if err := s.explain("get object", "x", c.err); !errors.As(err, &e) || e.Code != api.CodeBlobUnreachable || !strings.Contains(e.Hint, c.says) {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
}

func TestDeadlines(t *testing.T) {
	s, p := behind(t)
	p.Set(s3test.Faults{Slow: 1, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Get(ctx, "x", blob.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) || fault.CodeOf(err) != api.CodeTimeout {
		t.Errorf("%v", err)
	}
}

// A connection on which nothing comes is given up.
func TestStallingConnections(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := &timeoutConn{a, time.Millisecond}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	_ = a.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read from a closed connection")
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("write to a closed connection")
	}
}

func TestOpenWithoutCredentials(t *testing.T) {
	testkit.Proves(t, "S13")
	s3test.Setenv(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	o, err := Parse("s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); fault.CodeOf(err) != api.CodeBlobCredentials {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), Options{Bucket: "bucket"}); fault.CodeOf(err) != api.CodeBlobRegion {
		t.Errorf("without a region: %v", err)
	}
	if _, err := Open(t.Context(), Options{}); fault.CodeOf(err) != api.CodeInvalidConfig {
		t.Errorf("without a bucket: %v", err)
	}
	t.Setenv("AWS_PROFILE", "missing")
	if _, err := Open(t.Context(), o); fault.CodeOf(err) != api.CodeBlobCredentials {
		t.Errorf("with a profile that is not there: %v", err)
	}
}

func TestCredentialsComeFromTheEnvironment(t *testing.T) {
	s3test.Setenv(t)
	o, err := Parse(s3test.New(t).URL("some/prefix"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	if conditional, err := blob.Probe(t.Context(), s); !conditional || err != nil {
		t.Errorf("%v, %v", conditional, err)
	}
}

// bare403 finds an answer that came without its body: a server may hang up while it is still being sent to.
func bare403(err error) bool {
	return err != nil && strings.Contains(err.Error(), "the store answers 403 Forbidden")
}
