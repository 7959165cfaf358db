package s3blob

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

func sumsOf(text []byte) blob.Sums {
	return blob.Sums{SHA256: sha256.Sum256(text), CRC32C: crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))}
}

// The server takes the bytes that the checksums are of, and no others.
func TestPutChecked(t *testing.T) {
	s, p := behind(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	right := sumsOf(text)
	for name, c := range map[string]struct {
		sums blob.Sums
		ok   bool
	}{
		"right":        {right, true},
		"other sha256": {blob.Sums{SHA256: [32]byte{1}, CRC32C: right.CRC32C}, false},
		"other crc32c": {blob.Sums{SHA256: right.SHA256, CRC32C: 1}, false},
	} {
		s.refusesCRC.Store(false)
		_, before := p.Hits()
		err := s.PutChecked(t.Context(), name, bytes.NewReader(text), int64(len(text)), c.sums)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, now := p.Hits(); now-before > maxCheckedTries {
			t.Errorf("%s: tried %d times", name, now-before)
		}
		o, err := s.Get(t.Context(), name, blob.GetOptions{})
		if !c.ok && !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && err == nil {
			got, err := io.ReadAll(o.Body)
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	}
	if err := s.PutChecked(t.Context(), "../x", bytes.NewReader(nil), 0, blob.Sums{}); err == nil {
		t.Error("it took a key that is none")
	}
}

// A server that does not know of checksums is not told about them again.
func TestPutCheckedWithoutChecksums(t *testing.T) {
	s, p := behind(t)
	told := 0
	p.Set(s3test.Faults{Empty: 1, Only: func(r *http.Request) bool {
		if r.Header.Get("X-Amz-Checksum-Crc32c") != "" {
			told++
		}
		return false
	}})
	text := []byte("text")
	wrong := sumsOf(text)
	wrong.CRC32C++
	if err := s.PutChecked(t.Context(), "k", bytes.NewReader(text), 4, wrong); err == nil {
		t.Error("it took a wrong checksum")
	}
	was := told
	if err := s.PutChecked(t.Context(), "k", bytes.NewReader(text), 4, wrong); err != nil || told != was || was == 0 {
		t.Errorf("told %d times, then %d: %v", was, told, err)
	}
}

// Nobody waits long for a server that never answered.
func TestAStrangerIsGivenUpSoon(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var tries atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			_ = c.Close()
		}
	}()
	s := open(t, options(s3test.Bucket{Name: "bucket", Endpoint: "http://" + l.Addr().String()}, ""))
	if _, err := s.Get(t.Context(), "k", blob.GetOptions{}); err == nil || s.answered.Load() || tries.Load() != maxUnanswered {
		t.Errorf("tried %d times, met %v: %v", tries.Load(), s.answered.Load(), err)
	}
}

// Where everything is given, nothing else is looked at.
func TestGivenConfiguration(t *testing.T) {
	s3test.Setenv(t)
	b := s3test.New(t)
	t.Setenv("AWS_CONFIG_FILE", "/dev/null/x")
	for name, c := range map[string]struct {
		o  Options
		ok bool
	}{
		"keys from the environment": {Options{Bucket: b.Name, Endpoint: b.Endpoint, Region: s3test.Region}, true},
		"no region":                 {Options{Bucket: b.Name, Endpoint: b.Endpoint}, false},
		"no endpoint":               {Options{Bucket: b.Name, Region: s3test.Region}, false},
	} {
		if _, ok := fromEnv(&c.o); ok != c.ok {
			t.Errorf("%s: %v", name, ok)
		}
	}
	s := open(t, Options{Bucket: b.Name, Endpoint: b.Endpoint, Region: s3test.Region})
	if _, err := s.Put(t.Context(), "k", strings.NewReader("text"), 4, blob.PutOptions{}); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if _, ok := fromEnv(&Options{Bucket: b.Name, Endpoint: b.Endpoint, Region: s3test.Region}); ok {
		t.Error("without keys")
	}
}
