package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver/local"
	"github.com/berthdev/berth/internal/testkit"
)

// nest makes a tree of so many levels, each with a file, by going down: a path could not be that long.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(at, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	unix.Close(at)
}

// hostile makes a tree that is hard to remove, and returns what must survive its removal.
func hostile(t *testing.T, dir string) (outside string) {
	t.Helper()
	outside = t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nest(t, dir, testkit.Size(t, "local.depth"))
	many := filepath.Join(dir, "many")
	shut := filepath.Join(dir, "shut", "inner", "most")
	for _, d := range []string{many, shut} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("-rf \n%d", i)), nil, 0o000); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(shut, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{shut, filepath.Dir(shut), filepath.Dir(filepath.Dir(shut))} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	return outside
}

// Whatever an instance left, it can be removed, and nothing else is.
func TestHostileTreesAreRemoved(t *testing.T) {
	if !inUser() {
		asUser(t, 65534, "TestHostileTreesAreRemoved") // whom modes keep out
	}
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	outside := hostile(t, dir)
	if err := local.RemoveTree(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the tree is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := local.RemoveTree(t.Context(), dir); err != nil {
		t.Errorf("what is gone cannot be removed again: %v", err)
	}
}

func TestRemovalCanBeCalledOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := local.RemoveTree(ctx, dir); err == nil {
		t.Error("a removal that was called off has no error")
	}
}

// What is no instance's directory in the trash goes, too.
func TestTrashTakesAnything(t *testing.T) {
	dir := t.TempDir()
	trash := filepath.Join(dir, ".trash")
	if err := os.MkdirAll(filepath.Join(trash, "odd"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"file": "x", "odd/run.json": "{no json", "odd/record.json": ""} {
		if err := os.WriteFile(filepath.Join(trash, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(trash, "link")); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	if err := d.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(trash); err != nil || len(entries) > 0 {
		t.Errorf("left in the trash: %v, %v", entries, err)
	}
}
