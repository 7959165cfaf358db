package blobtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
)

// oddKeys are valid keys that implementations often handle wrongly.
var oddKeys = []string{
	"a b/c d", "a+b", "a%20b", "a%2Fb", "100%", "x&y", "<tag>", `quote"d`, "it's", "semi;colon", "a=b", "q?x=1#y", "at@home",
	"é", "e\u0301", "日本語/ファイル", "😀", "...", "..a", "a..", ".hidden", "~", "-", "back\\slash", "star*", "[x]", "{y}", "|", "^", "`",
	"UPPER", "upper", "x.o", "y.d", ".o", ".d", ".p", "tmp", "objects", "CON", "a:b", "$HOME", "comma,", "(x)", "!",
	strings.Repeat("l", 127), strings.Repeat("l", 128), strings.Repeat("l", 129), strings.Repeat("m", 255),
	strings.Repeat("n", 128) + "/x", strings.Repeat("n", 255) + "/" + strings.Repeat("o", 200),
	strings.Repeat("d/", 400) + "deep", strings.Repeat(strings.Repeat("k", 99)+"/", 8) + strings.Repeat("k", 100),
}

func testKeys(s *suite) {
	want := slices.Clone(oddKeys)
	for _, key := range want {
		s.put(key, []byte("at "+key))
	}
	for _, key := range want {
		s.has(key, []byte("at "+key))
	}
	slices.Sort(want)
	got := keysOf(s.list("", blob.ListOptions{}))
	s.check(slices.Equal(got, want), "listed %q\nnot    %q", got, want)
	for _, key := range want {
		s.must(s.s.Copy(s.ctx(), key, "copies/x"))
		s.has("copies/x", []byte("at "+key))
	}
	s.must(s.s.Delete(s.ctx(), append(want, "copies/x")...))
	s.check(len(s.list("", blob.ListOptions{})) == 0, "something is left")
}

var badKeys = []string{
	"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../x", "a/.", "x\x00y", "new\nline", "tab\t", "\x7f", "bad\xffutf", "\uFFFE",
	strings.Repeat("x", 256), strings.Repeat("x/", 450) + "y",
}

func testBadKeys(s *suite) {
	s.put("good", []byte("x"))
	for _, key := range badKeys {
		for name, call := range map[string]func(context.Context) error{
			"put": func(ctx context.Context) error {
				_, err := s.s.Put(ctx, key, bytes.NewReader(nil), 0, blob.PutOptions{})
				return err
			},
			"get":       func(ctx context.Context) error { _, err := s.s.Get(ctx, key, blob.GetOptions{}); return err },
			"copy from": func(ctx context.Context) error { return s.s.Copy(ctx, key, "to") },
			"copy to":   func(ctx context.Context) error { return s.s.Copy(ctx, "good", key) },
			"delete":    func(ctx context.Context) error { return s.s.Delete(ctx, "good2", key) },
		} {
			err := call(s.ctx())
			s.check(fault.CodeOf(err) == api.CodeInvalidPath, "%s %q: %v", name, key, err)
		}
	}
	got := keysOf(s.list("", blob.ListOptions{}))
	s.check(slices.Equal(got, []string{"good"}), "listed %q", got)
}

func testBadArguments(s *suite) {
	s.put("x", []byte("x"))
	for _, o := range []blob.GetOptions{{Offset: -1}, {Length: -1}} {
		_, err := s.s.Get(s.ctx(), "x", o)
		s.check(err != nil && !errors.Is(err, blob.ErrNotFound), "get %+v: %v", o, err)
	}
	_, err := s.s.Put(s.ctx(), "x", bytes.NewReader(nil), -1, blob.PutOptions{})
	s.check(err != nil, "put of -1 bytes: no error")
	_, err = s.s.Put(s.ctx(), "x", bytes.NewReader(nil), 0, blob.PutOptions{IfAbsent: true, IfMatch: "x"})
	s.check(err != nil, "put with both conditions: no error")
	s.has("x", []byte("x"))
}

func testEndedContext(s *suite) {
	s.put("x", []byte("x"))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.s.Get(ctx, "x", blob.GetOptions{})
	s.check(errors.Is(err, context.Canceled), "get: %v", err)
	_, err = s.s.Put(ctx, "x", strings.NewReader("other"), 5, blob.PutOptions{})
	s.check(errors.Is(err, context.Canceled), "put: %v", err)
	for _, err := range s.s.List(ctx, "", blob.ListOptions{}) {
		s.check(errors.Is(err, context.Canceled), "list: %v", err)
	}
	s.has("x", []byte("x"))
}

func testProbe(s *suite) {
	conditional, err := blob.Probe(s.ctx(), s.s)
	s.must(err)
	s.check(conditional, "the store ignores conditions")
	s.check(len(s.list("", blob.ListOptions{})) == 0, "the probe left something")
}

func testAddress(s *suite) {
	address := s.s.String()
	s.check(strings.Contains(address, "://"), "the store's address is %q", address)
}
