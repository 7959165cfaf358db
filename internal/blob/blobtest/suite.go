package blobtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/blob"
)

// patience is the time limit of one call, even on a busy machine.
const patience = 2 * time.Minute

// suite is the environment of one sub-test.
type suite struct {
	*testing.T
	h Harness
	s blob.Store
}

func newSuite(t *testing.T, h Harness) *suite { return &suite{t, h, h.New(t)} }

func callContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (s *suite) ctx() context.Context { return callContext(s.T) }

// must fails the sub-test if err is not nil.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// check fails the sub-test if ok is false.
func (s *suite) check(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Fatalf(format, args...)
	}
}

func (s *suite) put(key string, text []byte) blob.Tag {
	s.Helper()
	tag, err := s.s.Put(s.ctx(), key, bytes.NewReader(text), int64(len(text)), blob.PutOptions{})
	s.must(err)
	s.check(tag != "", "put %s: no tag", key)
	return tag
}

// try calls Put with the given conditions.
func (s *suite) try(key, text string, o blob.PutOptions) (blob.Tag, error) {
	return s.s.Put(s.ctx(), key, strings.NewReader(text), int64(len(text)), o)
}

func (s *suite) get(key string, o blob.GetOptions) (*blob.Object, []byte) {
	s.Helper()
	object, text, err := read(s.ctx(), s.s, key, o)
	s.must(err)
	return object, text
}

// has checks the content and the size of an object.
func (s *suite) has(key string, want []byte) {
	s.Helper()
	object, got := s.get(key, blob.GetOptions{})
	s.check(bytes.Equal(got, want), "%s is %s, not %s", key, brief(got), brief(want))
	s.check(object.Size == int64(len(want)), "%s has the size %d, not %d", key, object.Size, len(want))
}

func read(ctx context.Context, s blob.Store, key string, o blob.GetOptions) (*blob.Object, []byte, error) {
	object, err := s.Get(ctx, key, o)
	if err != nil {
		return nil, nil, err
	}
	defer object.Body.Close()
	text, err := io.ReadAll(object.Body)
	return object, text, err
}

func (s *suite) list(prefix string, o blob.ListOptions) []blob.Entry {
	s.Helper()
	var all []blob.Entry
	for e, err := range s.s.List(s.ctx(), prefix, o) {
		s.must(err)
		all = append(all, e)
	}
	return all
}

func keysOf(entries []blob.Entry) []string {
	keys := []string{}
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// noise returns pseudo-random bytes that depend only on the seed.
func noise(seed uint64, size int) []byte {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(text)
	return text
}

func brief(text []byte) string {
	if len(text) <= 40 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q… (%d bytes)", text[:40], len(text))
}
