package workspace_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree is everything in a directory, for comparing two.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if err != nil || rel == "." || strings.HasPrefix(rel, workspace.StateFile) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line = "-> " + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %s %x", info.ModTime().UTC().Format(time.RFC3339Nano), sha256.Sum256(data))
		}
		got[rel] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t testing.TB, a, b string) {
	t.Helper()
	if diff := cmp.Diff(tree(t, a), tree(t, b)); diff != "" {
		t.Fatalf("the trees differ:\n%s", diff)
	}
}

func open(t testing.TB, dir string) *workspace.Dir {
	t.Helper()
	d, err := workspace.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func push(t testing.TB, r *workspace.Repo, dir string, base *workspace.Index) *workspace.Result {
	t.Helper()
	res, err := r.Push(t.Context(), open(t, dir), base, workspace.PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func pull(t testing.TB, r *workspace.Repo, dir string, base *workspace.Index, o workspace.PullOptions) *workspace.Result {
	t.Helper()
	res, err := r.Pull(t.Context(), open(t, dir), base, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestPushAndRestore(t *testing.T) {
	eachStore(t, func(t *testing.T, store blob.Store) {
		r := &workspace.Repo{Store: store, Prefix: "docs/a/"}
		a, b := t.TempDir(), t.TempDir()
		big := make([]byte, 5<<20)
		rnd := rand.NewChaCha8([32]byte{1})
		_, _ = rnd.Read(big)
		write(t, a, map[string]string{"f": "one", "d/e/g": "two", "empty": "", "big": string(big), "bad\xff\nname": "x", "copy": "one"})
		if err := errors.Join(os.Mkdir(filepath.Join(a, "void"), 0o700), os.Symlink("/etc/passwd", filepath.Join(a, "link")), os.Chmod(filepath.Join(a, "f"), 0o755)); err != nil {
			t.Fatal(err)
		}
		first := push(t, r, a, nil)
		if !first.New || first.Stats.FilesUploaded != 6 {
			t.Errorf("%+v", first.Stats)
		}
		pull(t, r, b, nil, workspace.PullOptions{Empty: true})
		same(t, a, b)

		again := push(t, r, a, first.Index)
		if again.New || again.Version != first.Version || again.Stats.Requests != 1 {
			t.Errorf("nothing changed: %+v", again)
		}
		write(t, a, map[string]string{"f": "six", "d/new": "new"})
		if err := os.Remove(filepath.Join(a, "copy")); err != nil {
			t.Fatal(err)
		}
		second := push(t, r, a, again.Index)
		if !second.New || second.Stats.FilesUploaded != 2 || second.Stats.Requests != 4 {
			t.Errorf("%+v", second.Stats)
		}
		c := t.TempDir()
		got := pull(t, r, c, nil, workspace.PullOptions{Version: first.Version})
		same(t, b, c)
		got = pull(t, r, c, got.Index, workspace.PullOptions{})
		same(t, a, c)
		if got.Stats.FilesDeleted != 1 || got.Stats.FilesDownloaded != 2 {
			t.Errorf("%+v", got.Stats)
		}
		var ids []string
		for v, err := range r.Versions(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, v.ID)
		}
		if !slices.Equal(ids, []string{second.Version, first.Version}) {
			t.Errorf("versions %v", ids)
		}
	})
}
