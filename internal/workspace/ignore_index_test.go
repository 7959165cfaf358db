package workspace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/workspace"
)

// slowIgnore compares a path with every rule, the last one first: what an index must agree with.
type slowIgnore struct{ rules []slowRule }

type slowRule struct {
	parts            []string
	keep, folderOnly bool
}

func newSlowIgnore(text string) (g slowIgnore) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		var r slowRule
		if r.keep = strings.HasPrefix(line, "!"); r.keep {
			line = line[1:]
		}
		line, r.folderOnly = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !anchored {
			line = "**/" + line
		}
		valid := true
		for part := range strings.SplitSeq(line, "/") {
			part = strings.ReplaceAll(part, "[!", "[^")
			_, err := path.Match(part, "")
			valid = valid && err == nil
			r.parts = append(r.parts, part)
		}
		if valid {
			g.rules = append(g.rules, r)
		}
	}
	return g
}

func (g slowIgnore) match(name string, folder bool) bool {
	for i := len(g.rules) - 1; i >= 0; i-- {
		if r := g.rules[i]; (folder || !r.folderOnly) && slowMatch(r.parts, strings.Split(name, "/")) {
			return !r.keep
		}
	}
	return false
}

func slowMatch(pattern, parts []string) bool {
	switch {
	case len(pattern) == 0:
		return len(parts) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(parts) > 0
	case pattern[0] == "**":
		return slowMatch(pattern[1:], parts) || len(parts) > 0 && slowMatch(pattern, parts[1:])
	case len(parts) == 0:
		return false
	}
	ok, _ := path.Match(pattern[0], parts[0])
	return ok && slowMatch(pattern[1:], parts[1:])
}

// somePattern and somePath share few letters, so that they often match.
func somePattern(r *rand.Rand) string {
	words := []string{"a", "b", "ab", "ba", "a.b", "*", "a*", "*b", "*.b", "a*b", "*a*", "?", "?b", "[ab]", "[!a]b", "**", "a?", "\\a", "*a*b*"}
	var parts []string
	for range 1 + r.IntN(3) {
		parts = append(parts, words[r.IntN(len(words))])
	}
	text := strings.Join(parts, "/")
	if r.IntN(4) == 0 {
		text = "/" + text
	}
	if r.IntN(4) == 0 {
		text += "/"
	}
	if r.IntN(4) == 0 {
		text = "!" + text
	}
	return text
}

func somePath(r *rand.Rand) string {
	words := []string{"a", "b", "ab", "ba", "a.b", "aab", "bb", "c", "a.c"}
	var parts []string
	for range 1 + r.IntN(4) {
		parts = append(parts, words[r.IntN(len(words))])
	}
	return strings.Join(parts, "/")
}

func TestIndexedRulesMatchLikeOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range 1 + r.IntN(6) {
			fmt.Fprintln(&text, somePattern(r))
		}
		fast, err := workspace.ParseIgnore(text.String())
		if err != nil {
			t.Fatal(err)
		}
		slow := newSlowIgnore(text.String())
		for range 10 {
			name, folder := somePath(r), r.IntN(2) == 0
			if got, want := fast.Match(name, folder), slow.match(name, folder); got != want {
				t.Fatalf("%q, folder %v: left out %v, want %v by the rules\n%s", name, folder, got, want, text.String())
			}
		}
	}
}

// Git is asked about files that are there, so that it knows which are folders.
func TestRulesMatchLikeGit(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git %q: %v: %s", args, err, &complaint)
		}
		return string(out)
	}
	git("", "init", "-q")
	r := rand.New(rand.NewPCG(3, 4))
	folders := map[string]bool{}
	for range 60 {
		name := somePath(r)
		if os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755) == nil && os.WriteFile(filepath.Join(dir, name), nil, 0o644) == nil {
			for at := filepath.Dir(name); at != "."; at = filepath.Dir(at) {
				folders[at] = true
			}
			if _, taken := folders[name]; !taken {
				folders[name] = false
			}
		}
	}
	var names []string
	for name := range folders {
		names = append(names, name)
	}
	for range 60 {
		var text strings.Builder
		for range 1 + r.IntN(4) {
			fmt.Fprintln(&text, somePattern(r))
		}
		if err := os.WriteFile(filepath.Join(dir, ".git", "info", "exclude"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := workspace.ParseIgnore(text.String())
		if err != nil {
			t.Fatal(err)
		}
		ignored := map[string]bool{}
		for line := range strings.Lines(git(strings.Join(names, "\n")+"\n", "check-ignore", "--no-index", "--stdin")) {
			ignored[strings.TrimSpace(line)] = true
		}
		for _, name := range names {
			// What is below a folder that is left out is not looked at.
			got := false
			for i, c := range name + "/" {
				if c == '/' && !got {
					got = g.Match(name[:i], i < len(name) || folders[name])
				}
			}
			if got != ignored[name] {
				t.Errorf("%s, folder %v: left out %v, by git %v, by the rules\n%s", name, folders[name], got, ignored[name], text.String())
			}
		}
	}
}

// manyRules are as many rules as an ignore file may have, of all forms.
func manyRules(n int) string {
	forms := []string{"name%d", "/root/path%d", "*.ext%d", "pre%d*", "**/deep%d/x", "src/**/gen%d", "a%d/*.o", "*mid%d*", "x?%d", "[ab]%d", "dir%d/", "**/q%d/*.z"}
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, forms[i%len(forms)]+"\n", i)
	}
	return text.String()
}

func BenchmarkIgnore(b *testing.B) {
	g, err := workspace.ParseIgnore(manyRules(990))
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("src/module%d/package/file%d.go", i%100, i))
	}
	b.ResetTimer()
	for b.Loop() {
		for _, name := range names {
			if g.Match(name, false) {
				b.Fatal(name)
			}
		}
	}
}
