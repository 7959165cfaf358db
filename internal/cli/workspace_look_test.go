package cli

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/open"
)

// TestWorkspaceOfOtherTools: a folder of plain objects is a version like any other, and Berth's own go on
// from it.
func TestWorkspaceOfOtherTools(t *testing.T) {
	d := newDesk(t)
	store, err := open.Store(t.Context(), d.store)
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{"20250101T000000/a": "1", "20250101T000000/dir/b": "2", "other/20250101T000000/a": "1"} {
		if _, err := store.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "versions", d.does("versions"), "20250101T000000")
	here := d.path("here")
	d.does("pull", here)
	d.has("here", map[string]string{"a": "1", "dir/b": "2"})
	fill(t, here, map[string]string{"a": "changed"})
	if res := d.synced("sync", here); !res.New {
		t.Errorf("%+v", res)
	}
	if res := d.synced("push", here); res.New {
		t.Errorf("%+v", res)
	}
	d.does("verify")
	d.does("restore", "--into", d.path("copy"))
	d.has("copy", map[string]string{"a": "changed", "dir/b": "2"})

	other := d.tree("other", nil)
	if res := d.synced("sync", "--prefix", "other", other); res.FilesDownloaded != 1 {
		t.Errorf("%+v", res)
	}
	if res := d.synced("sync", "--prefix", "other", other); res.New || res.FilesDownloaded != 0 {
		t.Errorf("%+v", res)
	}
}

func TestWorkspaceExport(t *testing.T) {
	d := newDesk(t)
	files := map[string]string{"a": "one", "dir/b": "two", "empty/": "", "link": "->a"}
	here := d.tree("here", files)
	one := d.synced("push", here).Version
	fill(t, here, map[string]string{"a": "later"})
	d.does("push", here)

	contains(t, "directory", d.does("export", "--version", one, d.path("deep/out")), "exported version "+one+" to ", "2 files, 6 bytes")
	d.has("deep/out", files)
	for _, name := range []string{"out.tar", "out.tar.gz", "out.tgz"} {
		d.does("export", "--version", one, d.path(name))
		unpacked := d.tree("from "+name, nil)
		if out, err := exec.Command("tar", "-xf", d.path(name), "-C", unpacked).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", name, err, out)
		}
		d.has("from "+name, files)
	}
	r := d.berth("workspace", "export", "--version", one, "-")
	if names := tarNames(t, r.out); !slices.Equal(names, []string{"a", "dir/", "dir/b", "empty/", "link"}) || !strings.Contains(r.err, "exported version "+one+" to -: 2 files") {
		t.Errorf("%q, %s", names, r.err)
	}
	plain := d.path("plain")
	d.does("export", "--version", one, "file://"+plain)
	store, err := open.Store(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for e, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimPrefix(e.Key, one+"/"))
	}
	if !slices.Equal(keys, []string{".sandbox-state", "a", "dir/b"}) {
		t.Errorf("objects %q", keys)
	}
	d.does("restore", "--store", plain, "--into", d.path("from plain"))
	d.has("from plain", files)

	if out := d.does("export", "-q", d.path("quiet")); out == one+"\n" || !strings.Contains(out, "Z-") {
		t.Errorf("-q printed %q", out)
	}
	if got := decode[exportedJSON](t, d.does("export", "--json", "--version", one, d.path("json"))); got.Version != one || got.Files != 2 || got.Bytes != 6 || got.Skipped == nil {
		t.Errorf("%+v", got)
	}
	d.refuses(api.CodeInvalidRequest, []string{"Berth writes no .zip", ".tar.gz"}, "export", d.path("out.zip"))
	d.refuses(api.CodeNotEmpty, []string{here + " is not empty"}, "export", here)
	d.refuses(api.CodeFileExists, []string{d.path("out.tar") + " is there already"}, "export", d.path("out.tar"))
	d.refuses(api.CodeNotADirectory, []string{here + "/a is not a directory"}, "export", here+"/a")
	d.refuses(api.CodeUnknownVersion, []string{"there is no version"}, "export", "--version", "nosuch", d.path("none"))
	m := newTerminal(t)
	if r := d.at(m).berth("workspace", "export", "-"); r.code != 125 {
		t.Errorf("%+v", r)
	}
	m.Wait("an archive is nothing to look at")
}

// tarNames are the names in an archive.
func tarNames(t testing.TB, archive string) (names []string) {
	t.Helper()
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func TestWorkspaceVersionsByEnoughOfTheirNames(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1"})
	one := d.synced("push", here).Version
	fill(t, here, map[string]string{"a": "2"})
	two := d.synced("push", here).Version
	contains(t, "show by its end", d.does("show", "--version", one[len(one)-6:]), one, "A  a", "1 added")
	d.refuses(api.CodeUnknownVersion, []string{`"20" could be ` + two + " or " + one, "Type more of it."}, "show", "--version", "20")
	d.refuses(api.CodeUnknownVersion, []string{"Did you mean " + one + "?"}, "restore", "--version", one[:10]+"_"+one[11:], here)
	d.refuses(api.CodeUnknownVersion, []string{`there is no version "nosuch"`, "'berth workspace versions' lists those there are."}, "diff", "--from", "nosuch", here)
	if words := d.words("workspace", "show", "--version", ""); len(words) != 2 || !strings.HasPrefix(words[0], two+"\t") {
		t.Errorf("offered %q", words)
	}
	if words := d.words("workspace", "show", "--store", "/nosuch/store", "--version", ""); len(words) != 0 {
		t.Errorf("offered %q", words)
	}
}

func TestWorkspaceDiff(t *testing.T) {
	d := newDesk(t)
	here := d.tree("here", map[string]string{"a": "1", "b": "gone", "mode": "m", "old": "moved", "same": "s", "link": "->a"})
	one := d.synced("push", here).Version
	if out := d.does("diff", here); out != "nothing differs\n" {
		t.Errorf("%q", out)
	}
	if err := errors.Join(os.Remove(here+"/b"), os.Remove(here+"/link"), os.Rename(here+"/old", here+"/new"), os.Chmod(here+"/mode", 0o600)); err != nil {
		t.Fatal(err)
	}
	fill(t, here, map[string]string{"a": "longer", "c/d": "2", "link": "->c"})
	want := "M  a  6 bytes, was 1 byte\nD  b  4 bytes\nA  c/\nA  c/d  1 byte\nM  link  (link)\nM  mode  (permissions or time)\nR  old → new  5 bytes\n" +
		"2 added, 3 modified, 1 renamed, 1 deleted; 7 bytes new\n"
	if out := d.does("diff", here); out != want {
		t.Errorf("the directory: %q", out)
	}
	two := d.synced("push", here).Version
	for _, args := range [][]string{{"diff"}, {"diff", "--from", one}, {"diff", "--from", one, "--to", two}, {"diff", "--from", one, here}} {
		if out := d.does(args...); out != want {
			t.Errorf("%q: %q", args, out)
		}
	}
	contains(t, "the other way round", d.does("diff", "--from", two, "--to", one), "A  b", "D  c/d", "R  new → old", "1 added, 3 modified, 1 renamed, 2 deleted")
	if out := d.does("diff", "-q"); out != "a\nb\nc\nc/d\nlink\nmode\nnew\n" {
		t.Errorf("-q: %q", out)
	}
	got := decode[difference](t, d.does("diff", "--json"))
	if got.From != one || got.To != two || got.Added != 2 || got.Renamed != 1 || got.Bytes != 7 || len(got.Changes) != 7 || got.Changes[0] != (pathChange{Path: "a", Change: "modified", Kind: "file", Size: 6, Was: 1}) {
		t.Errorf("%+v", got)
	}
	shown := decode[shownVersion](t, d.does("show", "--json"))
	if shown.Version.ID != two || shown.From != one || shown.Deleted != 1 {
		t.Errorf("%+v", shown)
	}
	// A change that keeps size and time is seen, too.
	info, err := os.Stat(here + "/same")
	fill(t, here, map[string]string{"same": "2"})
	if err = errors.Join(err, os.Chtimes(here+"/same", info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if out := d.does("diff", "-q", here); out != "same\n" {
		t.Errorf("%q", out)
	}
}
