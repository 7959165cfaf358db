package tool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
)

// tree puts files into the workspace, each a minute older than the one before.
func (w *world) tree(names ...string) {
	w.t.Helper()
	now := time.Now()
	for i, name := range names {
		w.put(name, "content of "+name+"\n")
		at := now.Add(-time.Duration(i) * time.Minute)
		if err := os.Chtimes(w.at(name), at, at); err != nil {
			w.t.Fatal(err)
		}
	}
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestGlobFindsFilesNewestFirst(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.tree("src/z.go", "src/deep/er/y.go", "a.go", "src/a.ts", "src/b.tsx", ".github/ci.yml", "src/[x].md",
		".git/config", "node_modules/p/i.js", ".berth/state.go", "src/{q}")
	if err := os.Symlink("a.go", w.at("link.go")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"**/*.go":                     "link.go src/z.go src/deep/er/y.go a.go",
		"*.go":                        "link.go src/z.go src/deep/er/y.go a.go",
		"src/**":                      "src/z.go src/deep/er/y.go src/a.ts src/b.tsx src/[x].md src/{q}",
		"src/**/y.go":                 "src/deep/er/y.go",
		"src/**/z.go":                 "src/z.go",
		"src/*":                       "src/z.go src/a.ts src/b.tsx src/[x].md src/{q}",
		"src/*.{ts,tsx}":              "src/a.ts src/b.tsx",
		"{src,.github}/**/*.{ts,yml}": "src/a.ts .github/ci.yml",
		"src/[a-y].*":                 "src/a.ts src/b.tsx",
		"src/[!a-y].go":               "src/z.go",
		"src/?.ts":                    "src/a.ts",
		`src/\[x\].md`:                "src/[x].md",
		`src/\{q\}`:                   "src/{q}",
		"src/[[]x[]].md":              "src/[x].md",
		"/workspace/src/?.ts":         "src/a.ts",
		"node_modules/**/*.js":        "node_modules/p/i.js",
		".git/*":                      ".git/config",
		"a**o":                        "a.go",
		"missing/**/*.go":             "No files match.",
		"a.go/*":                      "No files match.",
		"*.rs":                        "No files match.",
	} {
		r := w.call("glob", args{"pattern": pattern})
		if is(t, pattern, words(r.Text()), want); r.IsError || r.Truncated {
			t.Errorf("%s: %+v", pattern, r)
		}
	}
	is(t, "below a folder", words(w.ok("glob", args{"pattern": "*.go", "path": "src/deep"})), "src/deep/er/y.go")
	is(t, "in a folder that is passed by", words(w.ok("glob", args{"pattern": "*", "path": "/workspace/.git/"})), ".git/config")
	w.put(filepath.Join(w.Home(), "notes.md"), "")
	for _, in := range []args{{"pattern": "~/*.md"}, {"pattern": "/home/agent/*.md", "path": "src"}, {"pattern": "*", "path": "~"}} {
		is(t, "at home", words(w.ok("glob", in)), "/home/agent/notes.md")
	}
	w.no("glob", args{"pattern": "*", "path": "missing"}, "file_not_found")
	w.no("glob", args{"pattern": "*", "path": "a.go"}, "not_a_directory")
	w.no("glob", args{"pattern": "/etc/*"}, "path_outside_workspace", "/workspace")
	for _, bad := range []string{"[", "a[b", "{a", "[z-a]", "src/{a,{b}", "[!", "[]", "[/]"} {
		_, err := w.try("glob", args{"pattern": bad})
		isCode(t, bad, err, api.CodeInvalidRequest)
	}
}

func TestGrepFindsLines(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put("a.go", "one\ntwo Needle\nthree\nfour\nfive\nsix needle\nseven\n")
	w.put("src/b.md", "needle\n")
	w.put("src/bin", "needle\x00needle")
	w.put(".git/x", "needle\n")
	w.put("node_modules/x", "needle\n")
	if err := os.Symlink("a.go", w.at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   args
		want string
	}{
		{args{"pattern": "needle"}, "a.go\nsrc/b.md\n"},
		{args{"pattern": "need.e$", "output_mode": "content"}, "a.go:6:six needle\nsrc/b.md:1:needle\n"},
		{args{"pattern": "needle", "output_mode": "count", "case_insensitive": true}, "a.go:2\nsrc/b.md:1\n"},
		{args{"pattern": "needle", "glob": "*.md"}, "src/b.md\n"},
		{args{"pattern": "needle", "glob": "src/**/*.md"}, "src/b.md\n"},
		{args{"pattern": "needle", "glob": "*.md", "path": "src"}, "src/b.md\n"},
		{args{"pattern": "needle", "path": "a.go"}, "a.go\n"},
		{args{"pattern": "needle", "path": "link"}, "link\n"},
		{args{"pattern": "needle", "path": "node_modules"}, "node_modules/x\n"},
		{args{"pattern": "(?i)NEEDLE", "path": "a.go", "output_mode": "content", "context": 1},
			"a.go-1-one\na.go:2:two Needle\na.go-3-three\n--\na.go-5-five\na.go:6:six needle\na.go-7-seven\n"},
		{args{"pattern": "(?i)needle", "path": "a.go", "output_mode": "content", "context": 2},
			"a.go-1-one\na.go:2:two Needle\na.go-3-three\na.go-4-four\na.go-5-five\na.go:6:six needle\na.go-7-seven\n"},
		{args{"pattern": "one|seven", "path": "a.go", "output_mode": "content", "context": 1},
			"a.go:1:one\na.go-2-two Needle\n--\na.go-6-six needle\na.go:7:seven\n"},
		{args{"pattern": "nothing"}, "No matches.\n"},
		{args{"pattern": "needle", "path": "src/bin"}, "No matches.\n"},
	} {
		r := w.call("grep", c.in)
		if r.IsError || r.Truncated {
			t.Errorf("%v: %+v", c.in, r)
		}
		is(t, "grep", r.Text(), c.want)
	}
	for _, c := range []args{{"pattern": "e", "head_limit": 1}, {"pattern": "e", "output_mode": "content", "head_limit": 3}, {"pattern": "e", "output_mode": "count", "head_limit": 1}} {
		r := w.call("grep", c)
		if !r.Truncated || strings.Count(r.Text(), "\n") != c["head_limit"].(int)+1 {
			t.Errorf("%v: %s", c, r.Text())
		}
		has(t, r.Text(), "head_limit=")
	}
	w.no("grep", args{"pattern": "x", "path": "missing"}, "file_not_found")
	for _, bad := range []args{{"pattern": "("}, {"pattern": `(?<=x)y`}, {"pattern": "a", "glob": "["}} {
		_, err := w.try("grep", bad)
		isCode(t, "bad", err, api.CodeInvalidRequest)
	}
}

// Of a long line the part around the match is shown.
func TestGrepInLongLines(t *testing.T) {
	w := newWorld(t)
	w.put("min.js", strings.Repeat("ä;", 40_000)+"needle"+strings.Repeat(";", 60_000)+"\n")
	r := w.call("grep", args{"pattern": "needle", "output_mode": "content"})
	if !r.Truncated || len(r.Text()) > 3_000 {
		t.Errorf("%d bytes", len(r.Text()))
	}
	has(t, r.Text(), "min.js:1:…", "needle;", "long lines are cut")
}

func TestListShowsAFolder(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.tree("b/c/d/e", "a", ".hidden/x")
	if err := os.Symlink("../away\n", w.at("link")); err != nil {
		t.Fatal(err)
	}
	is(t, "one level", w.ok("list", args{}), "/workspace/\n  a  13\n  b/\n  link -> \"../away\\n\"\n")
	is(t, "three", w.ok("list", args{"path": "b", "depth": 3}), "b/\n  c/\n    d/\n      e  19\n")
	is(t, "hidden", w.ok("list", args{"path": "/workspace", "hidden": true}), "/workspace/\n  .hidden/\n  a  13\n  b/\n  link -> \"../away\\n\"\n")
	has(t, w.ok("list", args{"path": ".hidden/"}), ".hidden/\n  x  ")
	has(t, w.ok("list", args{"path": "~"}), "/home/agent/\n", "empty")
	w.no("list", args{"path": "a"}, "not_a_directory")
	w.no("list", args{"path": "missing"}, "file_not_found")
}

// Folders that the sandbox's user cannot read are skipped, and reported.
func TestClosedFoldersAreToldOf(t *testing.T) {
	w := newWorld(t)
	w.tree("open/a", "closed/b")
	w.put("unreadable", "content")
	w.Owner = files.Owner{UID: 1000, GID: 1000, Set: true}
	for path, mode := range map[string]os.FileMode{w.Dir: 0o711, filepath.Dir(w.Dir): 0o711, w.Workspace(): 0o755, w.at("closed"): 0o700, w.at("unreadable"): 0o600} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := w.call("glob", args{"pattern": "*"})
	if !r.Truncated || !strings.HasPrefix(r.Text(), "open/a\nunreadable\n") && !strings.HasPrefix(r.Text(), "unreadable\nopen/a\n") {
		t.Errorf("%+v", r)
	}
	has(t, r.Text(), "1 files or folders could not be read")
	r = w.call("grep", args{"pattern": "content"})
	has(t, r.Text(), "open/a\n", "2 files or folders could not be read")
	w.no("read", args{"file_path": "unreadable"}, "file_access_denied")
	w.no("write", args{"file_path": "x", "content": ""}, "file_access_denied")
}

// An answer that is full says so.
func TestFullAnswersAreCut(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put("lines", strings.Repeat("needle in a rather long haystack\n", 5000))
	for i := range 400 {
		w.put(strings.Repeat("name", 40)+"/"+strings.Repeat("x", 100)+string(rune('a'+i%26))+strings.Repeat("y", i/26), "")
	}
	for name, in := range map[string]args{
		"grep": {"pattern": "needle", "output_mode": "content", "head_limit": 10_000, "context": 1},
		"glob": {"pattern": "*"},
		"list": {"depth": 2},
	} {
		r := w.call(name, in)
		if n := len(r.Text()); !r.Truncated || n < 20_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
		has(t, r.Text(), "Not everything: ")
	}
}

// A tool that was given no time says that it had none.
func TestToolsOnFilesHaveTheirTime(t *testing.T) {
	w := newWorld(t)
	w.put("a", "a\n")
	for name, in := range everyTool("a") {
		if name == "glob" {
			in = args{"pattern": "*"}
		}
		r := w.call(name, in, 1e-9)
		if name == "grep" && r.Truncated {
			continue
		}
		if !r.IsError {
			t.Errorf("%s: %+v", name, r)
		}
		has(t, r.Text(), "not done in time", "timeout")
	}
	w.holds("a", "a\n")
}
