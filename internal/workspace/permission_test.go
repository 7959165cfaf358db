package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/workspace"
)

// A folder that its owner may not write in is written in all the same, and is closed again.
func TestClosedFoldersAreWrittenIn(t *testing.T) {
	testkit.Proves(t, "S9")
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	write(t, a, map[string]string{"d/e/f": "1", "d/e/gone": "2", "d/kept": "3", "open/x": "4", "sealed/y": "5", "shut/z": "6"})
	chmod(t, a, "d/e", 0o500)
	chmod(t, a, "d", 0o555)
	chmod(t, a, "sealed", 0)
	first := push(t, r, a, nil)
	here, err := r.Pull(t.Context(), asUser(t, b), nil, workspace.PullOptions{})
	must(t, err)
	same(t, a, b)
	if again, err := r.Push(t.Context(), asUser(t, b), here.Index, workspace.PushOptions{}); err != nil || again.New {
		t.Errorf("nothing changed, and yet: %+v, %v", again, err)
	}
	must(t, os.Remove(filepath.Join(a, "d/e/gone")))
	write(t, a, map[string]string{"d/e/f": "changed", "d/e/new/deep": "n", "open/new": "n", "sealed/new": "n"})
	chmod(t, a, "d/e", 0o700) // the version says how it is from now on
	chmod(t, a, "open", 0o500)
	push(t, r, a, first.Index)
	chmod(t, b, "shut", 0o500) // changed here: stays
	write(t, a, map[string]string{"shut/new": "n"})
	next, err := r.Restore(t.Context(), asUser(t, b), here.Index, "", workspace.PullOptions{})
	must(t, err)
	_ = next
	must(t, os.Remove(filepath.Join(a, "shut/new")))
	same(t, a, b)

	// When it fails half-way the folders are closed, too.
	write(t, a, map[string]string{"d/big": strings.Repeat("x", 100)})
	m := r.Store.(*memory)
	base := push(t, r, a, pushAny(t, r, a).Index)
	_ = base
	m.hook = func(op, key string) error {
		if op == "get" && strings.HasPrefix(key, "packs/") {
			return fmt.Errorf("no")
		}
		return nil
	}
	if _, err := r.Pull(t.Context(), asUser(t, b), next.Index, workspace.PullOptions{}); err == nil {
		t.Error("it did not fail")
	}
	if st, err := os.Stat(filepath.Join(b, "d")); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("d is left open: %v, %v", st.Mode(), err)
	}
}

// What cannot be read is not taken for gone: it stays in the versions, and is named.
func TestUnreadableIsNotGone(t *testing.T) {
	testkit.Proves(t, "S7")
	for _, layout := range []workspace.Layout{workspace.Packed, workspace.Plain} {
		r, a := &workspace.Repo{Store: newMemory(), Layout: layout}, t.TempDir()
		write(t, a, map[string]string{"d/f": "1", "d/sub/g": "2", "file": "3", "other": "4", "x/y": "5"})
		u := asUser(t, a)
		first, err := r.Push(t.Context(), u, nil, workspace.PushOptions{})
		must(t, err)
		chmod(t, a, "d", 0)
		chmod(t, a, "file", 0)
		chmod(t, a, "x", 0o600) // its names can be read, and nothing else
		write(t, a, map[string]string{"other": "changed"})
		u = asUser(t, a)
		next, err := r.Push(t.Context(), u, first.Index, workspace.PushOptions{})
		must(t, err)
		if len(next.Skipped) != 3 {
			t.Errorf("skipped %+v", next.Skipped)
		}
		b := t.TempDir()
		pull(t, r, b, nil, workspace.PullOptions{})
		for path, want := range map[string]string{"d/f": "1", "d/sub/g": "2", "file": "3", "other": "changed", "x/y": "5"} {
			if got := read(t, b, path); got != want {
				t.Errorf("%s %s is %q", layout, path, got)
			}
		}
		if st, err := os.Stat(filepath.Join(b, "d")); err != nil || st.Mode().Perm() != 0 {
			t.Errorf("d: %v, %v", st, err)
		}
		again, err := r.Push(t.Context(), u, next.Index, workspace.PushOptions{})
		if err != nil || again.New {
			t.Errorf("nothing changed: %v", err)
		}
	}
}

// A file on which somebody holds a lease is left as it was, at once.
func TestLeasedFileDoesNotHoldUpAPush(t *testing.T) {
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"leased": "1", "other": "2"})
	first := push(t, r, a, nil)
	write(t, a, map[string]string{"leased": "x", "other": "y"})
	f, err := os.OpenFile(filepath.Join(a, "leased"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := push(t, r, a, first.Index)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(next.Skipped) != 1 || next.Skipped[0].Path != "leased" {
		t.Errorf("skipped %+v", next.Skipped)
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	must(t, err)
	if last := push(t, r, a, next.Index); !last.New || last.Stats.FilesUploaded != 1 {
		t.Errorf("%+v", last.Stats)
	}
}

// Pipes, sockets and devices are named and skipped; nobody waits for them.
func TestWhatCannotBeSavedIsNamed(t *testing.T) {
	testkit.Proves(t, "S9")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	write(t, a, map[string]string{"f": "1", "d/g": "2"})
	must(t, unix.Mkfifo(filepath.Join(a, "pipe"), 0o644), unix.Mknod(filepath.Join(a, "null"), unix.S_IFCHR|0o666, 0x103),
		unix.Mknod(filepath.Join(a, "d/socket"), unix.S_IFSOCK|0o666, 0), os.Mkdir(filepath.Join(a, "proc"), 0o755))
	must(t, unix.Mount("/proc", filepath.Join(a, "proc"), "", unix.MS_BIND, ""))
	defer func() { must(t, unix.Unmount(filepath.Join(a, "proc"), unix.MNT_DETACH)) }()
	res := push(t, r, a, nil)
	var named []string
	for _, s := range res.Skipped {
		named = append(named, s.Path)
	}
	if fmt.Sprint(named) != "[d/socket null pipe proc]" || res.Stats.FilesUploaded != 2 {
		t.Errorf("skipped %+v", res.Skipped)
	}
	for _, e := range res.Index.Entries {
		if strings.HasPrefix(e.Path, "proc/") {
			t.Fatalf("%s of another file system is saved", e.Path)
		}
	}
}

// A hard link to a file of somebody else that is also outside is not read, nor changed by a restore; links
// within the tree are files like others.
func TestHardLinks(t *testing.T) {
	testkit.Proves(t, "S12")
	r, a := &workspace.Repo{Store: newMemory()}, t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600), os.Chmod(outside, 0o600))
	write(t, a, map[string]string{"f": "1"})
	must(t, os.Chown(a, 4711, 4711), os.Link(outside, filepath.Join(a, "theirs")), os.Link(filepath.Join(a, "f"), filepath.Join(a, "g")))
	res := push(t, r, a, nil)
	if len(res.Skipped) != 1 || res.Skipped[0].Path != "theirs" || res.Stats.FilesRead != 2 {
		t.Errorf("%+v", res)
	}
	// The same bytes and other permissions: the file outside keeps its own.
	b := t.TempDir()
	write(t, b, map[string]string{"theirs": "secret", "other": "2"})
	chmod(t, b, "theirs", 0o777)
	q := &workspace.Repo{Store: newMemory()}
	push(t, q, b, nil)
	_, err := q.Restore(t.Context(), open(t, a), nil, "", workspace.PullOptions{})
	must(t, err)
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file outside: %v, %v", st.Mode(), err)
	}
	same(t, a, b)

	// Both names of one file are replaced or deleted, and neither is taken for changed.
	c, d := t.TempDir(), t.TempDir()
	write(t, c, map[string]string{"a": "1", "x": "0", "y": "0", "z": "0"})
	must(t, os.Link(filepath.Join(c, "a"), filepath.Join(c, "b")), os.Link(filepath.Join(c, "a"), filepath.Join(c, "c")))
	p := &workspace.Repo{Store: newMemory()}
	first := push(t, p, c, nil)
	got := pull(t, p, d, nil, workspace.PullOptions{})
	write(t, d, map[string]string{"a": "2", "b": "3"})
	must(t, os.Remove(filepath.Join(d, "c")))
	push(t, p, d, got.Index)
	if res := pull(t, p, c, first.Index, workspace.PullOptions{}); len(res.Conflicts) > 0 {
		t.Errorf("conflicts %q", res.Conflicts)
	}
	same(t, c, d)
}

// A root that is gone is not an empty tree.
func TestVanishedRootIsNotEmpty(t *testing.T) {
	testkit.Proves(t, "S3")
	r, a := &workspace.Repo{Store: newMemory()}, filepath.Join(t.TempDir(), "a")
	write(t, a, map[string]string{"f": "1"})
	d := open(t, a)
	res, err := r.Push(t.Context(), d, nil, workspace.PushOptions{})
	must(t, err)
	must(t, os.RemoveAll(a), os.Mkdir(a, 0o755))
	if again, err := r.Push(t.Context(), d, res.Index, workspace.PushOptions{}); err == nil {
		t.Errorf("%+v", again)
	}
	if _, err := r.Pull(t.Context(), d, nil, workspace.PullOptions{}); err == nil {
		t.Error("pulled into a folder that is gone")
	}
	must(t, d.Close())
	if _, err := r.Push(t.Context(), d, res.Index, workspace.PushOptions{}); err == nil {
		t.Error("pushed from a closed folder")
	}
	if _, err := workspace.OpenDir(a + "/none"); err == nil {
		t.Error("opened what is not there")
	}
}

// The bits that make a program run as somebody else are never restored.
func TestSetuidIsNotRestored(t *testing.T) {
	r, a, b := &workspace.Repo{Store: newMemory()}, t.TempDir(), t.TempDir()
	write(t, a, map[string]string{"f": "1"})
	must(t, syscall.Chmod(filepath.Join(a, "f"), 0o6755))
	push(t, r, a, nil)
	pull(t, r, b, nil, workspace.PullOptions{})
	if st, err := os.Stat(filepath.Join(b, "f")); err != nil || st.Mode() != 0o755 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}
