package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

func TestReadShowsLinesWithNumbers(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put("a.txt", "one\ntwo\r\n\nfour")
	is(t, "all", w.ok("read", args{"file_path": "a.txt"}), "     1\tone\n     2\ttwo\r\n     3\t\n     4\tfour\n")
	r := w.call("read", args{"file_path": "/workspace/a.txt", "offset": 2, "limit": 2})
	is(t, "a part", r.Text(), "     2\ttwo\r\n     3\t\n(Lines 2 to 3; the file goes on. Read on with offset=4.)\n")
	if !r.Truncated {
		t.Error("a part is not marked as one")
	}
	if r := w.call("read", args{"file_path": "a.txt", "offset": 3, "limit": 2}); r.Truncated {
		t.Errorf("the end is marked as a part: %s", r.Text())
	}
	w.no("read", args{"file_path": "a.txt", "offset": 9}, "has 4 lines")
	w.put("empty", "")
	has(t, w.ok("read", args{"file_path": "empty"}), "empty")
	w.put(filepath.Join(w.Home(), "h"), "at home")
	for _, name := range []string{"/home/agent/h", "~/h"} {
		has(t, w.ok("read", args{"file_path": name}), "at home")
	}
	w.put("image", "PNG\x00\x01")
	w.no("read", args{"file_path": "image"}, "not text", "5 bytes")
	w.put("latin", "caf\xe9\n")
	has(t, w.ok("read", args{"file_path": "latin"}), "caf\uFFFD")
	w.no("read", args{"file_path": "."}, "is_a_directory")
	w.no("read", args{"file_path": "missing"}, "file_not_found", `"missing"`)
}

func TestLongFileIsReadInParts(t *testing.T) {
	w := newWorld(t)
	var all strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&all, "line %d of the file\n", i+1)
	}
	w.put("long", all.String())
	seen, next := 0, 1
	for next > 0 {
		r := w.call("read", args{"file_path": "long", "offset": next})
		next = 0
		for line := range strings.Lines(r.Text()) {
			if _, text, ok := strings.Cut(line, "\t"); ok {
				seen++
				is(t, "line", text, fmt.Sprintf("line %d of the file\n", seen))
			} else if _, err := fmt.Sscanf(line[strings.LastIndex(line, "offset="):], "offset=%d", &next); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		if r.Truncated != (next > 0) {
			t.Fatalf("truncated %v, next %d", r.Truncated, next)
		}
	}
	if seen != 5000 {
		t.Errorf("%d lines", seen)
	}
	w.put("wide", strings.Repeat("ü", 500_000)+"\nnext\n")
	r := w.call("read", args{"file_path": "wide"})
	if !r.Truncated || len(r.Text()) > 3000 {
		t.Errorf("a long line makes %d bytes", len(r.Text()))
	}
	has(t, r.Text(), "üü… [the line has 1000000 bytes]\n     2\tnext", "Long lines are cut")
}

func TestWriteMakesOrReplacesAFile(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	is(t, "new", w.ok("write", args{"file_path": "/workspace/a/b/c.sh", "content": "one\x00\n"}), "Created a/b/c.sh (5 bytes).")
	w.holds("a/b/c.sh", "one\x00\n")
	if err := os.Chmod(w.at("a/b/c.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	is(t, "old", w.ok("write", args{"file_path": "a/b/c.sh", "content": ""}), "Replaced a/b/c.sh (0 bytes).")
	w.holds("a/b/c.sh", "")
	if info, err := os.Stat(w.at("a/b/c.sh")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	is(t, "home", w.ok("write", args{"file_path": "~/x", "content": "x"}), "Created /home/agent/x (1 bytes).")
	w.holds(filepath.Join(w.Home(), "x"), "x")
	w.no("write", args{"file_path": "a", "content": "x"}, "is_a_directory")
	w.no("write", args{"file_path": "a/b/c.sh/d", "content": "x"}, "not_a_directory")
	for _, root := range []string{".", "/workspace", "/workspace/"} {
		w.no("write", args{"file_path": root, "content": "x"})
	}
}

func TestEditReplacesExactlyWhatIsMeant(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	w.put("a.go", "func a() {}\nfunc b() {}\n")
	if err := os.Chmod(w.at("a.go"), 0o700); err != nil {
		t.Fatal(err)
	}
	is(t, "once", w.ok("edit", args{"file_path": "a.go", "old_string": "func a() {}\n", "new_string": ""}), "Replaced 1 occurrence in a.go.")
	w.holds("a.go", "func b() {}\n")
	if info, err := os.Stat(w.at("a.go")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	w.put("many", "x\xffx x x\n")
	w.no("edit", args{"file_path": "many", "old_string": "x", "new_string": "y"}, "occurs 4 times", "replace_all")
	w.no("edit", args{"file_path": "many", "old_string": "z", "new_string": "y"}, "does not occur", "line ends")
	w.no("edit", args{"file_path": "many", "old_string": "x", "new_string": "x"}, "the same")
	w.holds("many", "x\xffx x x\n")
	is(t, "all", w.ok("edit", args{"file_path": "many", "old_string": "x", "new_string": "yy", "replace_all": true}), "Replaced 4 occurrences in many.")
	w.holds("many", "yy\xffyy yy yy\n")
	w.no("edit", args{"file_path": "missing", "old_string": "x", "new_string": "y"}, "file_not_found")
	w.no("edit", args{"file_path": ".", "old_string": "x", "new_string": "y"}, "is_a_directory")
}

// Writing to a link would put a file in its place.
func TestLinksAreNeitherWrittenNorEdited(t *testing.T) {
	w := newWorld(t)
	w.put("real", "real\n")
	if err := os.Symlink("real", w.at("link")); err != nil {
		t.Fatal(err)
	}
	has(t, w.ok("read", args{"file_path": "link"}), "real")
	w.no("write", args{"file_path": "link", "content": "x"}, `a link to "real"`)
	w.no("edit", args{"file_path": "link", "old_string": "real", "new_string": "x"}, `a link to "real"`)
	w.holds("real", "real\n")
	if target, err := os.Readlink(w.at("link")); err != nil || target != "real" {
		t.Errorf("%q, %v", target, err)
	}
}

// Agents send several edits of one file at once. Each of them reads and writes the whole file: none may
// be lost.
func TestEditsAtOnceAreAllKept(t *testing.T) {
	testkit.Proves(t, "P3")
	w := newWorld(t)
	const edits = 32
	var before, after strings.Builder
	for i := range edits {
		fmt.Fprintf(&before, "old %d;\n", i)
		fmt.Fprintf(&after, "new %d;\n", i)
	}
	w.put("file", before.String())
	var all sync.WaitGroup
	results := make([]api.ToolResult, edits)
	for i := range edits {
		all.Go(func() {
			results[i] = w.call("edit", args{"file_path": "file", "old_string": fmt.Sprintf("old %d;", i), "new_string": fmt.Sprintf("new %d;", i)})
		})
	}
	all.Wait()
	for _, r := range results {
		is(t, "edit", r.Text(), "Replaced 1 occurrence in file.")
	}
	w.holds("file", after.String())
}

// Images are known by their first bytes, and shown whole.
func TestReadShowsImages(t *testing.T) {
	testkit.Proves(t, "P9")
	w := newWorld(t)
	for kind, head := range map[string]string{
		"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff\xe0", "image/gif": "GIF89a", "image/webp": "RIFF\x10\x00\x00\x00WEBP",
	} {
		data := head + strings.Repeat("\x00\x01", 5000)
		w.put("picture", data)
		r := w.call("read", args{"file_path": "picture"})
		if len(r.Content) != 2 || r.Content[1].Type != api.ContentImage || r.Content[1].MIMEType != kind || string(r.Content[1].Data) != data || r.IsError {
			t.Errorf("%s: error %v, %.100q", kind, r.IsError, r.Text())
		}
		has(t, r.Text(), kind, fmt.Sprint(len(data)))
	}
	w.put("large", "GIF89a"+strings.Repeat("x", 3<<20))
	w.no("read", args{"file_path": "large"}, "image/gif", "smaller")
	w.put("riff", "RIFF\x10\x00\x00\x00WAVE")
	w.no("read", args{"file_path": "riff"}, "not text")
}
