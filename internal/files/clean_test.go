package files_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

func TestEverySpellingOfTraversalIsRefused(t *testing.T) {
	testkit.Proves(t, "V4")
	for _, path := range []string{
		"..", "../", "../x", "a/..", "a/../b", "a/../../b", "./..", "...", "....//etc", "..../x", "a/.../b",
		`..\`, `..\x`, `a\..\b`, `a/..\b`, `\etc\passwd`, `\\host\share`,
		"/", "/etc/passwd", "//etc/passwd", "/../etc", "/workspace/x",
		"~", "~/x", "~root", "~root/.ssh", "~_x", "~+", "~-/x",
		"%2e%2e", "%2e%2e/x", "%2E%2e%2fetc", "..%2fetc", "%252e%252e%252fetc", "%25252e%25252e%25252fetc", "%2fetc%2fpasswd", "%5c..%5c",
	} {
		if clean, err := files.Clean(path); fault.CodeOf(err) != api.CodePathOutside {
			t.Errorf("Clean(%q) = %q, %v; want %s", path, clean, err, api.CodePathOutside)
		}
	}
}

func TestPathsThatNoRequestNeedsAreInvalid(t *testing.T) {
	for _, path := range []string{
		"a\x00b", "\x00", "a\nb", "a\rb", "a\x1b[2J", "a\u009bb", "a\x7f", "\xff", "a/\xc0\xae\xc0\xae/b", "a//b", "a///",
		strings.Repeat("x", 256), "d/" + strings.Repeat("x", 256), strings.Repeat("x/", 2500), strings.Repeat("x", 5000),
	} {
		if clean, err := files.Clean(path); fault.CodeOf(err) != api.CodeInvalidPath || len(err.Error()) > 400 {
			t.Errorf("Clean(%q) = %q, %v; want a short %s", path, clean, err, api.CodeInvalidPath)
		}
	}
}

func TestPlainPathsStayWhatTheyAre(t *testing.T) {
	for path, want := range map[string]string{
		"": "", ".": "", "./": "", "a": "a", "a/": "a", "./a": "a", "a/./b": "a/b", "a/b/c.txt": "a/b/c.txt",
		".a": ".a", "..a": "..a", "a..": "a..", "a/.berth/x": "a/.berth/x", "-rf": "-rf", "; id": "; id", "$(id)": "$(id)", `"quo'ted"`: `"quo'ted"`,
		"./~root": "~root", "a/~root": "a/~root", "~$doc": "~$doc", "x~": "x~", `a\b`: `a\b`, "100%": "100%", "%zz": "%zz", "%41": "%41", "ä/ö 漢": "ä/ö 漢",
		strings.Repeat("x/", 2000) + "x": strings.Repeat("x/", 2000) + "x",
	} {
		if got, err := files.Clean(path); err != nil || got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", path, got, err, want)
		}
	}
}

// Whatever is not refused stays below, and cleaning it again changes nothing.
func TestCleanedPathsNeverLeadUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{".", "..", "/", `\`, "a", "%2e", "%2f", "%25", "2e", "~", " ", "\n", "é"})).Draw(t, "parts")
		got, err := files.Clean(strings.Join(parts, ""))
		if err != nil {
			return
		}
		if strings.HasPrefix(got, "/") {
			t.Fatalf("%q is absolute", got)
		}
		for segment := range strings.SplitSeq(got, "/") {
			if segment == ".." || segment == "." || segment == "" && got != "" {
				t.Fatalf("%q has the segment %q", got, segment)
			}
		}
		if again, err := files.Clean("./" + got); err != nil || again != got {
			t.Fatalf("cleaned again: %q, %v", again, err)
		}
	})
}
