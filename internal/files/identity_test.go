package files_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"golang.org/x/sys/unix"
)

// somebody is a user whom this machine does not know.
var somebody = files.Owner{UID: 0x10000000 + 1000, GID: 0x10000000 + 1000, Set: true}

func TestFilesBelongToTheOwner(t *testing.T) {
	w := newWorldAs(t, somebody)
	ctx := t.Context()
	if err := errors.Join(w.write("a/b/file", "x"), w.Mkdir(ctx, "dir"), w.Symlink(ctx, "t", "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "a/b", "a/b/file", "dir", "link"} {
		info, err := os.Lstat(w.at(path))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) != somebody.UID || int(st.Gid) != somebody.GID {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
	}
	w.want("a/b/file", "x")
}

// What the owner could not do itself, the kernel refuses, root's own files and groups included.
func TestOwnerGetsNoFurtherThanItself(t *testing.T) {
	w := newWorldAs(t, somebody)
	ctx := t.Context()
	w.put("roots", canary)
	w.put("locked/file", canary)
	for path, mode := range map[string]fs.FileMode{"roots": 0o640, "locked": 0o750} { // root's group may
		if err := os.Chmod(w.at(path), mode); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.Open(ctx, "roots")
	isCode(t, "open root's file", err, api.CodeFileDenied)
	_, err = w.Open(ctx, "locked/file")
	isCode(t, "open below root's folder", err, api.CodeFileDenied)
	_, err = w.ReadDir(ctx, "locked", "", 10)
	isCode(t, "list root's folder", err, api.CodeFileDenied)
	isCode(t, "write to root's folder", w.write("locked/new", "x"), api.CodeFileDenied)
	isCode(t, "remove root's folder", w.Remove(ctx, "locked", true), api.CodeFileDenied)
	if data, err := os.ReadFile(w.at("locked/file")); err != nil || string(data) != canary {
		t.Errorf("root's file: %q, %v", data, err)
	}
	// Its own directory is its own to remove, whatever its mode.
	if err := w.Mkdir(ctx, "mine/closed/deeper"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"mine/closed", "mine"} {
		if err := os.Chmod(w.at(path), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Remove(ctx, "mine", true); err != nil {
		t.Errorf("remove a folder closed to its owner: %v", err)
	}
}

// No thread stays somebody else, and none of ours is touched.
func TestIdentityIsGivenBack(t *testing.T) {
	w := newWorldAs(t, somebody)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if err := w.write("f"+string(rune('a'+i)), "x"); err != nil {
					t.Error(err)
				}
				if uid, _ := unix.SetfsuidRetUid(-1); uid != unix.Geteuid() {
					t.Errorf("a goroutine runs as %d", uid)
				}
			}
		})
	}
	all.Wait()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !strings.Contains(string(status), "Uid:\t0\t0\t0\t0\n") || !strings.Contains(string(status), "Gid:\t0\t0\t0\t0\n") {
			t.Errorf("thread %s: %v\n%s", task.Name(), err, status)
		}
	}
}

// Root cannot be asked to act as a user that passes by permissions.
func TestOwnerWithPowersIsRefused(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := files.NewDir(dir, files.Owner{UID: 0, GID: 0, Set: true}); !errors.Is(err, unix.EPERM) {
		t.Errorf("act as root: %v, want it refused", err)
	}
}
