package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/blob/dirblob"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit/s3test"
	"github.com/berthdev/berth/internal/workspace"
)

// stores are the kinds of stores there are.
var stores = map[string]func(*testing.T) blob.Store{
	"memory":    func(*testing.T) blob.Store { return newMemory() },
	"directory": func(t *testing.T) blob.Store { return dirblobAt(t, t.TempDir()) },
	"S3":        func(t *testing.T) blob.Store { return openStore(t, s3test.New(t).URL("some/prefix")) },
}

// eachStore runs a test on every kind of store.
func eachStore(t *testing.T, test func(t *testing.T, s blob.Store)) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) { test(t, store(t)) })
	}
}

// eachLayout runs a test for every layout, on every kind of store.
func eachLayout(t *testing.T, test func(t *testing.T, r *workspace.Repo)) {
	for name := range stores {
		t.Run(name, func(t *testing.T) { eachLayoutOn(t, name, test) })
	}
}

// eachLayoutOn runs a test for every layout, on one kind of store.
func eachLayoutOn(t *testing.T, store string, test func(t *testing.T, r *workspace.Repo)) {
	s := stores[store](t)
	for name, layout := range map[string]workspace.Layout{"packed": workspace.Packed, "plain": workspace.Plain} {
		t.Run(name, func(t *testing.T) {
			test(t, &workspace.Repo{Store: s, Prefix: fmt.Sprintf("docs/%s/", name), Layout: layout})
		})
	}
}

func dirblobAt(t testing.TB, dir string) blob.Store {
	t.Helper()
	s, err := dirblob.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// asUser opens a directory as a tree of an ordinary user, to whom it is given.
func asUser(t testing.TB, dir string) *files.Dir {
	t.Helper()
	if err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 4711, 4711)
	}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.NewDir(f, files.Owner{UID: 4711, GID: 4711, Set: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// objects puts objects into a store.
func objects(t testing.TB, s blob.Store, all map[string]string) {
	t.Helper()
	for key, text := range all {
		if _, err := s.Put(t.Context(), key, bytes.NewReader([]byte(text)), int64(len(text)), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func chmod(t testing.TB, dir, path string, mode os.FileMode) {
	t.Helper()
	must(t, os.Chmod(filepath.Join(dir, path), mode))
}

func sys(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

func sortEntries(entries []workspace.Entry) {
	slices.SortFunc(entries, func(a, b workspace.Entry) int { return strings.Compare(a.Path, b.Path) })
}
