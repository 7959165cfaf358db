package blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/fault"
)

func TestKeys(t *testing.T) {
	for _, key := range []string{"a", "a/b", "docs/me/HEAD", ".x", "...", "a b", "日本", strings.Repeat("x", 255), strings.Repeat("x/", 449) + "yy"} {
		if err := blob.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{
		"", "/a", "a/", "a//b", ".", "a/./b", "..", "a/..", "\x00", "a\nb", "\x85", "a\xff", "\uFFFF",
		strings.Repeat("x", 256), strings.Repeat("x/", 450) + "y",
	} {
		if err := blob.CheckKey(key); fault.CodeOf(err) != api.CodeInvalidPath {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// lax is a store that ignores some conditions, as some that speak S3 do.
type lax struct {
	blob.Store
	ignore func(blob.PutOptions) bool
	broken error
}

func (l lax) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	if l.broken != nil {
		return "", l.broken
	}
	if l.ignore(o) {
		o = blob.PutOptions{}
	}
	return l.Store.Put(ctx, key, r, size, o)
}

func TestProbeFindsStoresThatIgnoreConditions(t *testing.T) {
	s, err := dirblob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, c := range map[string]struct {
		ignore func(blob.PutOptions) bool
		want   bool
	}{
		"none":      {func(blob.PutOptions) bool { return false }, true},
		"absent":    {func(o blob.PutOptions) bool { return o.IfAbsent }, false},
		"match":     {func(o blob.PutOptions) bool { return o.IfMatch != "" }, false},
		"all of it": {func(blob.PutOptions) bool { return true }, false},
	} {
		if got, err := blob.Probe(t.Context(), lax{s, c.ignore, nil}); got != c.want || err != nil {
			t.Errorf("ignoring %s: %v, %v", name, got, err)
		}
	}
	broken := errors.New("no such bucket")
	if got, err := blob.Probe(t.Context(), lax{s, nil, broken}); got || !errors.Is(err, broken) {
		t.Errorf("broken: %v, %v", got, err)
	}
	for e, err := range s.List(t.Context(), "", blob.ListOptions{}) {
		t.Errorf("left: %+v, %v", e, err)
	}
}
