package workspace_test

import (
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/workspace"
)

// The expectations are git's own (git check-ignore --no-index).
func TestIgnoreFollowsGit(t *testing.T) {
	for _, c := range []struct{ rules, out, in string }{
		{"*.log", "a.log d/b.log", "a.logs log"},
		{"/a", "a", "d/a"},
		{"a/b", "a/b", "x/a/b a"},
		{"build/", "build/ x/build/", "build x/build"},
		{"**/foo", "foo a/foo a/b/foo", "foobar"},
		{"a/**", "a/x a/x/y", "a/ b"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b a"},
		{"*.o\n!keep.o", "x.o", "keep.o d/keep.o"},
		{"# comment\n\n\\#real", "#real", "comment"},
		{"trail   \nesc\\ ", "trail esc\u0020", "trail\u0020"},
		{"[!a]x", "bx", "ax"},
		{"doc/*.txt", "doc/a.txt", "doc/s/a.txt"},
		{"/", "", "a"},
		{"**", "a a/b", ""},
	} {
		g, err := workspace.ParseIgnore(c.rules)
		if err != nil {
			t.Fatalf("%q: %v", c.rules, err)
		}
		for want, list := range map[bool]string{true: c.out, false: c.in} {
			for _, path := range strings.FieldsFunc(list, func(r rune) bool { return r == ' ' && !strings.Contains(c.rules, "esc") }) {
				if strings.Contains(c.rules, "esc") {
					continue
				}
				name, folder := strings.CutSuffix(path, "/")
				if g.Match(name, folder) != want {
					t.Errorf("%q: %s left out: %v", c.rules, path, !want)
				}
			}
		}
	}
	g, _ := workspace.ParseIgnore("trail   \nesc\\ ")
	if !g.Match("trail", false) || !g.Match("esc ", false) || g.Match("trail ", false) {
		t.Error("spaces at the end of a pattern")
	}
	for _, bad := range []string{"[a", strings.Repeat("a\n", 1001), strings.Repeat("x", workspace.MaxIgnore+1)} {
		if _, err := workspace.ParseIgnore(bad); err == nil {
			t.Errorf("%.20q was taken", bad)
		}
	}
	var none *workspace.Ignore
	if none.Match("a", false) {
		t.Error("no rules leave something out")
	}
}
