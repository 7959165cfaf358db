package s3blob

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/blobtest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// behind opens a store behind a proxy that spoils nothing yet.
func behind(t *testing.T) (*Store, *s3test.FaultProxy) {
	t.Helper()
	b := s3test.New(t)
	p := s3test.Proxy(t, b.Endpoint)
	b.Endpoint = p.Endpoint
	return open(t, options(b, "p")), p
}

var weather = s3test.Faults{
	Error: 0.08, Disowned: 0.02, Deaf: 0.02, Lost: 0.03, Truncated: 0.03, Empty: 0.02, Slow: 0.02, Delay: 20 * time.Millisecond,
}

// TestBadWeather holds every answer of a store behind a bad network against a model.
func TestBadWeather(t *testing.T) {
	testkit.Proves(t, "S13")
	s, p := behind(t)
	p.Set(weather)
	failed := blobtest.Storm(t, s)
	hits, total := p.Hits()
	t.Logf("of %d requests were spoilt: %v", total, hits)
	for _, fault := range []string{"error", "disowned", "deaf", "lost", "truncated", "empty", "slow"} {
		if hits[fault] == 0 {
			t.Errorf("no request was spoilt by %s", fault)
		}
	}
	for _, err := range failed {
		t.Log(err)
		if !errors.Is(err, errUnsure) {
			t.Errorf("failed in spite of all tries: %v", err)
		}
	}
}

func TestCountInBadWeather(t *testing.T) {
	s, p := behind(t)
	p.Set(weather)
	blobtest.Count(t, s, s)
}

func TestSuiteInBadWeather(t *testing.T) {
	blobtest.Run(t, blobtest.Harness{Flat: true, Rough: true, New: func(t *testing.T) blob.Store {
		s, p := behind(t)
		p.Set(weather)
		return s
	}})
}

// puts reports whether a request writes an object whole.
func puts(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Get("partNumber") == ""
}

// once is a fault of the first such request.
func once(f s3test.Faults, such func(*http.Request) bool) s3test.Faults {
	left := 1
	f.Only = func(r *http.Request) bool {
		if !such(r) || left == 0 {
			return false
		}
		left--
		return true
	}
	return f
}

func TestConditionalWriteWhoseAnswerIsLost(t *testing.T) {
	completes := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }
	for name, c := range map[string]struct {
		size int
		such func(*http.Request) bool
	}{"whole": {100, puts}, "in parts": {17 << 20, completes}} {
		for lost, f := range map[string]s3test.Faults{"lost": {Lost: 1}, "disowned": {Disowned: 1}} {
			t.Run(name+" "+lost, func(t *testing.T) {
				s, p := behind(t)
				text := bytes.Repeat([]byte("x"), c.size)
				put := func(o blob.PutOptions) (blob.Tag, error) {
					return s.Put(t.Context(), "x", bytes.NewReader(text), int64(len(text)), o)
				}
				p.Set(once(f, c.such))
				tag, err := put(blob.PutOptions{IfAbsent: true})
				if err != nil {
					t.Fatalf("first write: %v", err)
				}
				text[0]++
				p.Set(once(f, c.such))
				if tag, err = put(blob.PutOptions{IfMatch: tag}); err != nil {
					t.Fatalf("second write: %v", err)
				}
				p.Set(once(f, c.such))
				if _, err := put(blob.PutOptions{}); err != nil {
					t.Fatalf("third write: %v", err)
				}
				// Not by our own hand: it cannot be known whether we were before them.
				p.Set(once(f, c.such))
				text[1]++
				if _, err := put(blob.PutOptions{IfAbsent: true}); err == nil || c.size > 1000 && errors.Is(err, blob.ErrPrecondition) {
					t.Errorf("write over the third: %v", err)
				}
				_ = tag
			})
		}
	}
}

// TestBodiesThatBreakOff reads on where it broke off, for as long as the object is the same.
func TestBodiesThatBreakOff(t *testing.T) {
	s, p := behind(t)
	text := strings.Repeat("0123456789", 100_000)
	put := func(text string) {
		t.Helper()
		if _, err := s.Put(t.Context(), "x", strings.NewReader(text), int64(len(text)), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put(text)
	p.Set(s3test.Faults{Truncated: 0.7})
	for _, o := range []blob.GetOptions{{}, {Offset: 17}, {Offset: 5, Length: 500_000}} {
		object, err := s.Get(t.Context(), "x", o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(object.Body)
		want := text[o.Offset:]
		if o.Length > 0 {
			want = want[:o.Length]
		}
		if err != nil || string(got) != want {
			t.Errorf("%+v: %d bytes, %v", o, len(got), err)
		}
		if err := object.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := object.Body.Read(make([]byte, 1)); err == nil {
			t.Error("a closed body can be read")
		}
	}
	p.Set(once(s3test.Faults{Truncated: 1}, func(*http.Request) bool { return true }))
	object, err := s.Get(t.Context(), "x", blob.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	put(strings.ToUpper(text) + "!")
	if got, err := io.ReadAll(object.Body); err == nil || len(got) >= len(text) {
		t.Errorf("an object that was replaced: %d bytes, %v", len(got), err)
	}
	p.Set(s3test.Faults{Truncated: 1})
	s.limits.broken = 2
	if object, err := s.Get(t.Context(), "x", blob.GetOptions{}); err == nil {
		defer object.Body.Close()
		for range 3 {
			if _, err := io.ReadAll(object.Body); err == nil {
				t.Error("a body that always breaks off ends well")
			}
		}
	}
}

// TestNothingIsLeftOfFailedUploads looks for unfinished uploads, which cost money and which nobody sees.
func TestNothingIsLeftOfFailedUploads(t *testing.T) {
	s, p := behind(t)
	big := bytes.Repeat([]byte("x"), 17<<20)
	put := func(r io.Reader, size int, o blob.PutOptions) error {
		_, err := s.Put(t.Context(), "x", r, int64(size), o)
		return err
	}
	if err := put(bytes.NewReader(big), len(big), blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"short":   put(bytes.NewReader(big), len(big)+1, blob.PutOptions{}),
		"stream":  put(struct{ io.Reader }{bytes.NewReader(big)}, len(big)+1, blob.PutOptions{}),
		"refused": put(bytes.NewReader(big), len(big), blob.PutOptions{IfAbsent: true}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s.limits.patience = 0
	p.Set(s3test.Faults{Error: 1, Only: func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "2" }})
	if err := put(bytes.NewReader(big), len(big), blob.PutOptions{}); err == nil {
		t.Error("a part that fails: no error")
	}
	p.Set(s3test.Faults{})
	left, err := s.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: s.bucket()})
	if err != nil || len(left.Uploads) > 0 {
		t.Errorf("left: %v, %v", left.Uploads, err)
	}
	if !s.memory.TryAcquire(maxMemory) {
		t.Error("not all memory was given back")
	}
}
