package workspace_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// furnish makes a tree with everything that can be saved.
func furnish(t testing.TB, dir string) {
	t.Helper()
	write(t, dir, map[string]string{
		"f": "one", "copy": "one", "empty": "", "d/e/g": "two", "d/e/h": "three", "d-e": "sorts between d and d/e",
		"large": strings.Repeat("0123456789abcdef", 5<<16), "holes": strings.Repeat("\x00", 5<<20) + "end",
		"bad\xff\nname": "x", "d/" + strings.Repeat("n", 255): "long", "e\u0301": "two characters", "\u00e9": "one character",
		"-rf": "a", "; id": "b", "$(id)": "c", "q\"'\\": "d", ".hidden": "e", "\U0010ff41": "f",
	})
	epoch := time.Unix(0, 0)
	old := time.Date(1955, 11, 5, 6, 15, 0, 123, time.UTC)
	must(t,
		os.Mkdir(filepath.Join(dir, "void"), 0o700),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		os.Symlink("nowhere", filepath.Join(dir, "d/dangling")),
		os.Chtimes(filepath.Join(dir, "d/e/g"), epoch, epoch),
		os.Chtimes(filepath.Join(dir, "d/e/h"), old, old),
		os.Chmod(filepath.Join(dir, "f"), 0o755),
		os.Chmod(filepath.Join(dir, "copy"), 0),
		os.Chmod(filepath.Join(dir, "d-e"), 0o4755),
	)
}

// What is saved comes back, in every layout and store; every row of the table of what other tools lose.
func TestWhatIsSavedComesBack(t *testing.T) {
	testkit.Proves(t, "S9", "S3")
	eachLayout(t, func(t *testing.T, r *workspace.Repo) {
		a, b := t.TempDir(), t.TempDir()
		furnish(t, a)
		first := push(t, r, a, nil)
		chmod(t, a, "d-e", 0o755) // no version has the bit
		pull(t, r, b, nil, workspace.PullOptions{})
		same(t, a, b)
		var st os.FileInfo
		st, err := os.Stat(filepath.Join(b, "holes"))
		must(t, err)
		if blocks := sys(st).Blocks; blocks > 2048 {
			t.Errorf("a file of holes takes %d blocks", blocks)
		}

		again := push(t, r, a, first.Index)
		if again.New || again.Stats.Requests != 1 {
			t.Errorf("nothing changed: %+v", again.Stats)
		}
		older := time.Now().Add(-time.Hour)
		write(t, a, map[string]string{"f": "six", "d/e/g": "owt"}) // the same sizes
		must(t, os.Chtimes(filepath.Join(a, "f"), older, older), os.Remove(filepath.Join(a, "d-e")),
			os.RemoveAll(filepath.Join(a, "d/e")), os.Remove(filepath.Join(a, "empty")), os.Remove(filepath.Join(a, "link")))
		write(t, a, map[string]string{"d/e": "a file", "empty/is/a/folder": "", "renamed": "two"})
		must(t, os.Symlink("elsewhere", filepath.Join(a, "link")))
		second := push(t, r, a, again.Index)
		got := pull(t, r, b, first.Index, workspace.PullOptions{})
		same(t, a, b)
		if got.Version != second.Version || len(got.Conflicts) > 0 {
			t.Errorf("%+v", got)
		}
		old := t.TempDir()
		res, err := r.Restore(t.Context(), open(t, old), nil, first.Version, workspace.PullOptions{})
		must(t, err)
		third := push(t, r, old, res.Index)
		if !third.New || third.Stats.FilesUploaded > 5 {
			t.Errorf("the old version again: %+v", third.Stats)
		}
		_, m1, err := r.Version(t.Context(), first.Version)
		must(t, err)
		_, m3, err := r.Version(t.Context(), "")
		must(t, err)
		if d := workspace.Diff(m1, m3); len(d.Changes) > 0 {
			t.Errorf("the old version again differs: %+v", d)
		}
		v, err := r.Verify(t.Context())
		if err != nil || v.Versions != 3 || len(v.Problems) > 0 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// A layout may be changed from one version to the next, and nothing of an older layout is needed.
func TestLayoutMayChange(t *testing.T) {
	m := newMemory()
	a := t.TempDir()
	furnish(t, a)
	var index *workspace.Index
	for i, layout := range []workspace.Layout{workspace.Plain, workspace.Packed, workspace.Plain} {
		r := &workspace.Repo{Store: m, Layout: layout}
		write(t, a, map[string]string{"f": fmt.Sprint(i)})
		index = push(t, r, a, index).Index
		m.ago += 48 * time.Hour
		for range 2 {
			if _, err := r.Prune(t.Context(), workspace.PruneOptions{Policy: workspace.Policy{Last: 1}}); err != nil {
				t.Fatal(err)
			}
			m.ago += 48 * time.Hour
		}
		b := t.TempDir()
		pull(t, r, b, nil, workspace.PullOptions{Empty: true})
		chmod(t, a, "d-e", 0o755)
		same(t, a, b)
	}
	_, err := (&workspace.Repo{Store: m, Layout: "odd"}).Push(t.Context(), open(t, a), index, workspace.PushOptions{})
	wantCode(t, err, api.CodeInvalidRequest)
}

// A version in the plain layout is what other tools expect: each file an object under its path.
func TestPlainLayoutIsPlain(t *testing.T) {
	m := newMemory()
	r, a := &workspace.Repo{Store: m, Layout: workspace.Plain, Prefix: "p/"}, t.TempDir()
	write(t, a, map[string]string{"f": "one", "d/g": "two", "empty": "", "new\nline": "x"})
	first := push(t, r, a, nil)
	for path, want := range map[string]string{"f": "one", "d/g": "two", "empty": ""} {
		if got := string(m.data["p/"+first.Version+"/"+path].data); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
	var copied, put []string
	var mu sync.Mutex
	m.hook = func(op, key string) error {
		mu.Lock()
		defer mu.Unlock()
		switch op {
		case "copy":
			copied = append(copied, key)
		case "put":
			put = append(put, key)
		}
		return nil
	}
	write(t, a, map[string]string{"f": "eno"})
	at := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(a, "d/g"), at, at)) // read again, and found to be the same
	second := push(t, r, a, first.Index)
	if !slices.Equal(copied, []string{"p/" + second.Version + "/d/g"}) || second.Stats.FilesUploaded != 1 {
		t.Errorf("copied %q, put %q", copied, put)
	}
}

// A prefix that plain S3 tools wrote is restored: the newest folder that is complete.
func TestStrangersVersionsAreRestored(t *testing.T) {
	testkit.Proves(t, "S1", "S7")
	const state = `{"version": "1.0", "last_synced_at": 1731628800, "files": [
		{"path": "main.py", "checksum": "186bdbe41e79ea696410ba0a9e8d2762", "size": 8, "modified_at": 1731628700},
		{"path": "src/a/b.txt", "checksum": "5d41402abc4b2a76b9719d911017c592", "size": 5, "modified_at": 1731628701}]}`
	for name, c := range map[string]struct {
		objects map[string]string
		version string
		want    map[string]string
	}{
		"with a state file": {map[string]string{
			"x/2024-11-15T00:00:00Z/.sandbox-state": state, "x/2024-11-15T00:00:00Z/main.py": "print(1)", "x/2024-11-15T00:00:00Z/src/a/b.txt": "hello",
			"x/2024-11-16T00:00:00Z/main.py": "half an upload", "x/2024-11-14T00:00:00Z/.sandbox-state": state,
			"x/2024-11-17T00:00:00Z/.sandbox-state": "{broken",
		}, "2024-11-15T00:00:00Z", map[string]string{"main.py": "print(1)", "src/a/b.txt": "hello"}},
		"without": {map[string]string{
			"x/1731628800/old": "old", "x/1731628900/new": "new", "x/1731628900/d/e": "deep", "x/other/z": "no version",
			"x/0193a5b2-7c3e-7d4f-8a91-000000000000/HEAD": "another's", "x/20261115T031402.123456789Z-abcdef/unfinished": "ours",
		}, "1731628900", map[string]string{"new": "new", "d/e": "deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, m blob.Store) {
				objects(t, m, c.objects)
				r, dir := &workspace.Repo{Store: m, Prefix: "x/"}, t.TempDir()
				if empty, err := r.Empty(t.Context()); empty || err != nil {
					t.Fatalf("empty %v, %v", empty, err)
				}
				_, err := r.Push(t.Context(), open(t, dir), nil, workspace.PushOptions{})
				if !errors.Is(err, workspace.ErrMoved) {
					t.Errorf("an empty tree is pushed over it: %v", err)
				}
				got := pull(t, r, dir, nil, workspace.PullOptions{})
				if got.Version != c.version || len(tree(t, dir)) < len(c.want) {
					t.Errorf("restored %s: %v", got.Version, tree(t, dir))
				}
				for path, want := range c.want {
					if is := read(t, dir, path); is != want {
						t.Errorf("%s is %q", path, is)
					}
				}
				must(t, workspace.WriteState(open(t, dir), got.State))
				if s, err := workspace.ReadState(open(t, dir)); err != nil || len(s.Entries) != len(got.Index.Entries) {
					t.Errorf("the state file: %v, %v", s, err)
				}
				again := pull(t, r, dir, nil, workspace.PullOptions{}) // as after a crash: nothing is kept twice
				if len(again.Conflicts) > 0 || again.Stats.FilesDownloaded > 0 {
					t.Errorf("again: %+v", again)
				}
				v, err := r.Verify(t.Context())
				if err != nil || v.Versions == 0 || name == "without" && len(v.Problems) > 0 {
					t.Errorf("%+v, %v", v, err)
				}
				write(t, dir, map[string]string{"mine": "1"})
				res, err := r.Sync(t.Context(), open(t, dir), got.Index, workspace.PushOptions{})
				must(t, err)
				if !res.New {
					t.Error("nothing was pushed")
				}
				b := t.TempDir()
				pull(t, r, b, nil, workspace.PullOptions{})
				same(t, dir, b)
				if _, _, err := r.Version(t.Context(), c.version); err != nil {
					t.Errorf("the stranger's version by its name: %v", err)
				}
				_, err = r.Restore(t.Context(), open(t, b), nil, c.version, workspace.PullOptions{})
				must(t, err)
			})
		})
	}
}

// A newer folder of another tool is brought like any version; one without a state file deletes nothing.
func TestStrangersNextVersion(t *testing.T) {
	m := newMemory()
	r, dir := &workspace.Repo{Store: m}, t.TempDir()
	objects(t, m, map[string]string{"20240101/a": "1", "20240101/b": "2"})
	first := pull(t, r, dir, nil, workspace.PullOptions{})
	objects(t, m, map[string]string{"20240102/a": "changed", "20240102/c": "3"})
	got := pull(t, r, dir, first.Index, workspace.PullOptions{})
	if got.Version != "20240102" || read(t, dir, "a") != "changed" || read(t, dir, "b") != "2" || read(t, dir, "c") != "3" || len(got.Conflicts) > 0 {
		t.Errorf("%+v %v", got, tree(t, dir))
	}
	objects(t, m, map[string]string{"20240103/a": "x", "20240103/a/b": "both a file and a folder"})
	_, err := r.Pull(t.Context(), open(t, dir), got.Index, workspace.PullOptions{})
	wantCode(t, err, api.CodeBadManifest)
	n := 0
	for _, err := range r.Versions(t.Context()) {
		must(t, err)
		n++
	}
	if n != 3 {
		t.Errorf("%d versions", n)
	}
}

// An export is a prefix of the plain layout that restores, an archive, or a directory.
func TestExport(t *testing.T) {
	eachLayoutOn(t, "directory", func(t *testing.T, r *workspace.Repo) {
		a := t.TempDir()
		furnish(t, a)
		chmod(t, a, "d-e", 0o755)
		push(t, r, a, nil)
		to := newMemory()
		done, err := r.Export(t.Context(), "", to, "out/")
		must(t, err)
		if len(done.Skipped) != 1 || done.Skipped[0].Path != "bad\xff\nname" {
			t.Errorf("skipped %+v", done.Skipped)
		}
		b, c, d := t.TempDir(), t.TempDir(), t.TempDir()
		pull(t, &workspace.Repo{Store: to, Prefix: "out/"}, b, nil, workspace.PullOptions{})
		write(t, b, map[string]string{"bad\xff\nname": "x"})
		at := time.Now()
		must(t, os.Chtimes(filepath.Join(a, "bad\xff\nname"), at, at), os.Chtimes(filepath.Join(b, "bad\xff\nname"), at, at))
		same(t, a, b)

		var archive bytes.Buffer
		_, err = r.ExportTar(t.Context(), done.Version, &archive)
		must(t, err)
		untar(t, &archive, c)
		must(t, os.Chtimes(filepath.Join(c, "bad\xff\nname"), at, at))
		same(t, a, c)

		_, err = r.ExportDir(t.Context(), "", open(t, d))
		must(t, err)
		must(t, os.Chtimes(filepath.Join(d, "bad\xff\nname"), at, at))
		same(t, a, d)
		if s, err := workspace.ReadState(open(t, d)); err != nil || s.ID != done.Version {
			t.Errorf("%v, %v", s, err)
		}
		for _, err := range []error{
			second(r.Export(t.Context(), "none", to, "")), second(r.ExportTar(t.Context(), "none", &archive)), second(r.ExportDir(t.Context(), "none", open(t, t.TempDir()))),
		} {
			wantCode(t, err, api.CodeUnknownVersion)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// An export of bytes that were altered has no end and no state file.
func TestExportOfAlteredBytesFails(t *testing.T) {
	m := newMemory()
	r, a := &workspace.Repo{Store: m}, t.TempDir()
	furnish(t, a)
	push(t, r, a, nil)
	m.change("packs/", func(data []byte) []byte { data[len(data)-1] ^= 1; return data })
	to := newMemory()
	_, err := r.Export(t.Context(), "", to, "")
	wantCode(t, err, api.CodeBadManifest)
	for key := range to.data {
		if strings.Contains(key, workspace.StateFile) {
			t.Error("there is a state file")
		}
	}
	var archive bytes.Buffer
	_, err = r.ExportTar(t.Context(), "", &archive)
	wantCode(t, err, api.CodeBadManifest)
	tr := tar.NewReader(&archive)
	for err = nil; err == nil; _, err = tr.Next() {
	}
	if err == io.EOF && archive.Len() == 0 && bytes.HasSuffix(archive.Bytes(), make([]byte, 1024)) {
		t.Error("the archive ends as if it were whole")
	}
	m.mu.Lock()
	for key := range m.data {
		if strings.HasPrefix(key, "packs/") {
			delete(m.data, key)
		}
	}
	m.mu.Unlock()
	if _, err := r.Export(t.Context(), "", to, ""); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func untar(t testing.TB, from io.Reader, dir string) {
	t.Helper()
	tr := tar.NewReader(from)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		path := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, os.Mkdir(path, 0o700), os.Chmod(path, h.FileInfo().Mode()))
		case tar.TypeSymlink:
			must(t, os.Symlink(h.Linkname, path))
		default:
			data, err := io.ReadAll(tr)
			must(t, err)
			must(t, os.WriteFile(path, data, 0o600), os.Chmod(path, h.FileInfo().Mode()), os.Chtimes(path, h.ModTime, h.ModTime))
		}
	}
}
