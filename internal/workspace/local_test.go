package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/workspace"
)

func lockLocal(t *testing.T, path string, repo *workspace.Repo) (*workspace.LocalDir, *workspace.Index) {
	t.Helper()
	d, err := workspace.LockLocal(t.Context(), path, workspace.LocalOptions{Warn: func(text string) { t.Error(text) }})
	if err != nil {
		t.Fatal(err)
	}
	base, err := d.Base(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	return d, base
}

// save writes a file and pushes the directory, as one process after the other does it.
func save(t *testing.T, path, text string, repo *workspace.Repo) error {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, base := lockLocal(t, path, repo)
	defer d.Close()
	res, err := d.Push(t.Context(), repo, base, workspace.PushOptions{Ignore: d.Ignore})
	if err != nil {
		return err
	}
	return d.Record(t.Context(), repo, res)
}

// TestLocalDirIsSyncedByOneProcess: the second one is refused, by the name of the first.
func TestLocalDirIsSyncedByOneProcess(t *testing.T) {
	path := t.TempDir()
	d, _ := lockLocal(t, path, &workspace.Repo{Store: newMemory(), Prefix: "p/"})
	if _, err := workspace.LockLocal(t.Context(), path, workspace.LocalOptions{}); fault.CodeOf(err) != api.CodeBusy {
		t.Errorf("while it is locked: %v", err)
	}
	d.Close()
	again, err := workspace.LockLocal(t.Context(), path, workspace.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestLocalPushNeverUndoesOthers: a directory behind the store, or of another history, is refused.
func TestLocalPushNeverUndoesOthers(t *testing.T) {
	repo := &workspace.Repo{Store: newMemory(), Prefix: "p/"}
	one, two := t.TempDir(), t.TempDir()
	if err := save(t, one, "1", repo); err != nil {
		t.Fatal(err)
	}
	if err := save(t, two, "never the same", repo); fault.CodeOf(err) != api.CodeSyncConflict {
		t.Errorf("a directory that was never the same: %v", err)
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(one)); err != nil {
		t.Fatal(err)
	}
	if err := save(t, one, "2", repo); err != nil {
		t.Fatal(err)
	}
	if err := save(t, copied, "3", repo); fault.CodeOf(err) != api.CodeSyncConflict {
		t.Errorf("a directory behind the store: %v", err)
	}
}

// TestLocalDirExpectsItsHistory: a directory that was saved is not saved into an empty store by mistake.
func TestLocalDirExpectsItsHistory(t *testing.T) {
	path := t.TempDir()
	if err := save(t, path, "1", &workspace.Repo{Store: newMemory(), Prefix: "p/"}); err != nil {
		t.Fatal(err)
	}
	empty := &workspace.Repo{Store: newMemory(), Prefix: "p/"}
	d, base := lockLocal(t, path, empty)
	defer d.Close()
	missing := d.ExpectHistory(empty, base)
	if _, err := d.Push(t.Context(), empty, base, workspace.PushOptions{Ignore: d.Ignore}); !errors.Is(err, missing) {
		t.Errorf("%v, want %v", err, missing)
	}
}

func TestStoreAndDirectoryAreNotNested(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		store, dir string
		ok         bool
	}{
		{dir + "/a", dir + "/b", true}, {dir + "/a/store", dir + "/a", false}, {dir, dir + "/a", false}, {dir, dir, false},
		{"file://" + dir + "/a/store", dir + "/a", false}, {"s3://bucket/x", dir, true}, {"", dir, true},
	} {
		if err := workspace.CheckNotNested(c.store, c.dir); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
