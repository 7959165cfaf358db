package fault_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berthdev/berth/internal/fault"
)

func TestClipKeepsRunesWhole(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"日本", 3, "日…"},
		{"日本", 5, "日…"},
		{"日本", 2, "…"},
		{"a😀b", 4, "a…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80…"},
	} {
		if got := fault.Clip(c.text, c.limit); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
	text := strings.Repeat("é日😀x", 20)
	for limit := range len(text) {
		if got := fault.Clip(text, limit); !utf8.ValidString(got) || len(got) > limit+len("…") {
			t.Errorf("Clip to %d bytes = %q: not valid UTF-8, or too long", limit, got)
		}
	}
}
