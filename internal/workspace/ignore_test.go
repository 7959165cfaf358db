package workspace_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
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
	if g, err := workspace.ParseIgnore("[a\nb"); err != nil || g.Match("[a", false) || !g.Match("b", false) {
		t.Errorf("a pattern that is none: %v", err)
	}
	for _, bad := range []string{strings.Repeat("a\n", 1001), strings.Repeat("x", workspace.MaxIgnore+1)} {
		if _, err := workspace.ParseIgnore(bad); err == nil {
			t.Errorf("%.20q was taken", bad)
		}
	}
	var none *workspace.Ignore
	if none.Match("a", false) {
		t.Error("no rules leave something out")
	}
}

// The ignore file of a tree is a file of at most a certain size, or nothing.
func TestIgnoreFileOfATree(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	r := &workspace.Repo{Store: newMemory()}
	write(t, dir, map[string]string{"a.log": "1", "b": "2", "node_modules/x/y": "3"})
	if g, err := workspace.ReadIgnore(d); g != nil || err != nil {
		t.Errorf("none: %v, %v", g, err)
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, workspace.IgnoreFile)))
	if g, err := workspace.ReadIgnore(d); g != nil || err != nil {
		t.Errorf("a link: %v, %v", g, err)
	}
	remove(t, dir, workspace.IgnoreFile)
	write(t, dir, map[string]string{workspace.IgnoreFile: "*.log\nnode_modules/\n"})
	g, err := workspace.ReadIgnore(d)
	must(t, err)
	res, err := r.Push(t.Context(), d, nil, workspace.PushOptions{Ignore: g})
	if err != nil || len(res.Index.Entries) != 2 {
		t.Errorf("%v, %v", res, err)
	}
	_, err = r.Restore(t.Context(), d, res.Index, "", workspace.PullOptions{Ignore: g})
	must(t, err)
	if read(t, dir, "a.log") != "1" || read(t, dir, "node_modules/x/y") != "3" {
		t.Error("what is left out was deleted")
	}
	write(t, dir, map[string]string{workspace.IgnoreFile: strings.Repeat("x", workspace.MaxIgnore+1)})
	_, err = workspace.ReadIgnore(d)
	wantCode(t, err, api.CodeInvalidRequest)
}

// What an upload left that was cut off is never saved, and not restored from a version that has it.
func TestUploadsAreNotSaved(t *testing.T) {
	const upload = ".berth-tmp-abcdefghijklmnopqrstuvwx27"
	dir := t.TempDir()
	r := &workspace.Repo{Store: newMemory()}
	write(t, dir, map[string]string{upload: "half", "sub/" + upload: "half", ".berth-tmp-notes": "mine", "sub/" + upload + "x": "mine"})
	pushed, err := r.Push(t.Context(), open(t, dir), nil, workspace.PushOptions{})
	must(t, err)
	var names []string
	for _, e := range pushed.Index.Entries {
		names = append(names, e.Path)
	}
	if got := strings.Join(names, " "); got != ".berth-tmp-notes sub sub/"+upload+"x" {
		t.Errorf("saved: %s", got)
	}
	m := newMemory()
	older, dir := &workspace.Repo{Store: m}, t.TempDir()
	objects(t, m, map[string]string{"20240101/a": "1", "20240101/" + upload: "half", "20240101/sub/" + upload: "half"})
	pulled := pull(t, older, dir, nil, workspace.PullOptions{})
	if got := tree(t, dir); len(got) != 2 || read(t, dir, "a") != "1" {
		t.Errorf("restored: %v", got)
	}
	next, err := older.Push(t.Context(), open(t, dir), pulled.Index, workspace.PushOptions{})
	must(t, err)
	for _, e := range next.Index.Entries {
		if strings.HasSuffix(e.Path, upload) {
			t.Errorf("saved again: %s", e.Path)
		}
	}
}

// The form of uploads' names is that of package files.
func TestUploadsAreKnownByTheirNames(t *testing.T) {
	dir := t.TempDir()
	d := asUser(t, dir)
	body, sender := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, _, err := d.Write(t.Context(), "file", body, files.WriteOptions{})
		done <- err
	}()
	_, err := sender.Write([]byte("half"))
	must(t, err)
	entries, err := os.ReadDir(dir)
	must(t, err)
	scan, err := workspace.Scan(t.Context(), d, workspace.ScanOptions{})
	must(t, err)
	if len(entries) != 1 || len(scan.Entries) != 0 {
		t.Errorf("of %v the scan has %+v", entries, scan.Entries)
	}
	must(t, sender.Close(), <-done)
}
