package files_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestWriteReadStat(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	info, created, err := w.Write(ctx, "src/deep/main.go", strings.NewReader("package main\n"), files.WriteOptions{Perm: 0o4755})
	if err != nil || !created || info.Path != "src/deep/main.go" || info.Size != 13 || info.Mode != 0o755 {
		t.Fatalf("wrote %+v, new %v, %v", info, created, err)
	}
	w.want("src/deep/main.go", "package main\n")
	got, err := w.Stat(ctx, "src/deep/main.go")
	if err != nil || got != info {
		t.Errorf("stat %+v, %v; want %+v", got, err, info)
	}
	then := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	again, created, err := w.Write(ctx, "src/deep/main.go", strings.NewReader("2"), files.WriteOptions{ModTime: then, Lazy: true})
	if err != nil || created || again.Mode != 0o755 || !again.ModTime.Equal(then) || again.Tag == info.Tag {
		t.Errorf("wrote again %+v, new %v, %v: want its mode kept and another tag than %s", again, created, err, info.Tag)
	}
	_, _, err = w.Write(ctx, "src/deep/main.go", strings.NewReader("3"), files.WriteOptions{New: true})
	isCode(t, "write anew", err, api.CodeFileExists)
	w.want("src/deep/main.go", "2")
	if names := w.names("src/deep"); names != "main.go" {
		t.Errorf("left behind: %s", names)
	}
	if root, err := w.Stat(ctx, ""); err != nil || !root.Mode.IsDir() || root.Path != "" {
		t.Errorf("root %+v, %v", root, err)
	}
	r, err := w.Open(ctx, "src/deep/main.go")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Info().Size != 1 {
		t.Errorf("info %+v", r.Info())
	}
}

// A file is what it was until the new one is whole.
func TestFailedWriteLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.put("kept", "old")
	for _, path := range []string{"kept", "new/folder/file"} {
		_, _, err := w.Write(t.Context(), path, halfSent(), files.WriteOptions{})
		var source *files.SourceError
		if !errors.Is(err, errSender) || !errors.As(err, &source) || !strings.Contains(err.Error(), "read what to write") {
			t.Errorf("%s: %v, want the sender's error", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := w.Write(ctx, "late/file", failing{readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), nil}, files.WriteOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := w.Stat(ctx, "kept"); !errors.Is(err, context.Canceled) {
		t.Errorf("stat after the end: %v", err)
	}
	w.want("kept", "old")
	if names := w.names(""); names != "kept" {
		t.Errorf("left behind: %s", names)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFullDiskIsSaidAndLeavesNothing(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("files-test", mount, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	dir, err := os.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.NewDir(dir, files.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, _, err = d.Write(t.Context(), "a/large", strings.NewReader(strings.Repeat("x", 1<<20)), files.WriteOptions{})
	isCode(t, "write beyond the disk", err, api.CodeDiskFull)
	if entries, err := os.ReadDir(mount); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// B4 4: a link out is shown as one, and its content never.
func TestLinksOutAreShownAndNeverFollowed(t *testing.T) {
	testkit.Proves(t, "V4")
	w := newWorld(t)
	ctx := t.Context()
	w.link(w.outside+"/secret", "abs")
	w.link("../outside/secret", "rel")
	w.link(w.outside, "dir")
	w.link("/proc/self/root"+w.outside, "magic")
	w.link("abs", "chain")
	w.link("loop", "loop")
	for _, path := range []string{"abs", "rel", "chain", "dir/secret", "magic/secret", "../outside/secret"} {
		_, err := w.Open(ctx, path)
		isCode(t, "open "+path, err, api.CodePathOutside)
	}
	for _, path := range []string{"dir", "magic"} {
		_, err := w.ReadDir(ctx, path, "", 10)
		isCode(t, "list "+path, err, api.CodePathOutside)
		isCode(t, "write below "+path, w.write(path+"/x", "x"), api.CodePathOutside)
		isCode(t, "mkdir below "+path, w.Mkdir(ctx, path+"/x/y"), api.CodePathOutside)
		isCode(t, "link below "+path, w.Symlink(ctx, "t", path+"/x"), api.CodePathOutside)
		isCode(t, "remove below "+path, w.Remove(ctx, path+"/secret", true), api.CodePathOutside)
		isCode(t, "move out of "+path, w.Rename(ctx, path+"/secret", "mine", true), api.CodePathOutside)
		w.put("mine", "mine")
		isCode(t, "move into "+path, w.Rename(ctx, "mine", path+"/x", true), api.CodePathOutside)
	}
	_, err := w.Open(ctx, "loop")
	isCode(t, "open a loop", err, api.CodeInvalidPath)
	info, err := w.Stat(ctx, "abs")
	if err != nil || info.Mode.Type() != fs.ModeSymlink || info.Target != w.outside+"/secret" {
		t.Errorf("stat of a link: %+v, %v", info, err)
	}
	w.untouched()
	// Writing, moving and removing act on the link itself.
	if err := errors.Join(w.write("abs", "mine"), w.Rename(ctx, "rel", "moved", false), w.Remove(ctx, "dir", true)); err != nil {
		t.Error(err)
	}
	w.want("abs", "mine")
	if info, err := w.Stat(ctx, "moved"); err != nil || info.Target != "../outside/secret" {
		t.Errorf("moved link: %+v, %v", info, err)
	}
	w.untouched()
}

func TestLinksInsideAreFollowedByReaders(t *testing.T) {
	w := newWorld(t)
	w.put("real/file", "content")
	w.link("real", "dir")
	w.link("../real/file", "sub/up")
	w.want("dir/file", "content")
	w.want("sub/up", "content")
	if entries, err := w.ReadDir(t.Context(), "dir", "", 10); err != nil || len(entries) != 1 || entries[0].Path != "dir/file" {
		t.Errorf("listed %+v, %v", entries, err)
	}
	if err := w.write("dir/new", "x"); err != nil || w.names("real") != "file new" {
		t.Errorf("written through a link: %v, %s", err, w.names("real"))
	}
	w.link("nowhere", "dangling")
	isCode(t, "make a folder of a link that leads nowhere", w.Mkdir(t.Context(), "dangling"), api.CodeFileNotFound)
}

// B4 6 and 7: none of them is opened, and none makes anybody wait.
func TestSpecialFilesAreNeverOpened(t *testing.T) {
	testkit.Proves(t, "V4")
	w := newWorld(t)
	w.specials()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, name := range []string{"pipe", "socket", "device", "hard"} {
		_, err := w.Open(ctx, name)
		isCode(t, "open "+name, err, api.CodeSpecialFile)
		isCode(t, "write "+name, w.write(name, "x"), api.CodeSpecialFile)
		w.link(name, "link-to-"+name)
		_, err = w.Open(ctx, "link-to-"+name)
		isCode(t, "open a link to "+name, err, api.CodeSpecialFile)
	}
	types := map[string]fs.FileMode{"pipe": fs.ModeNamedPipe, "socket": fs.ModeSocket, "device": fs.ModeDevice | fs.ModeCharDevice, "hard": 0}
	for name, want := range types {
		if info, err := w.Stat(ctx, name); err != nil || info.Mode.Type() != want {
			t.Errorf("%s is %v, %v", name, info.Mode, err)
		}
		if err := w.Remove(ctx, name, false); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	w.untouched()
}

// A mount in the tree is as far outside as a link that leads there.
func TestMountsAreNotEntered(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(w.at("proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(w.outside, w.at("proc"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(w.at("proc"), unix.MNT_DETACH) })
	_, err := w.Open(t.Context(), "proc/secret")
	isCode(t, "open in a mount", err, api.CodePathOutside)
	if w.Remove(t.Context(), "proc", true) == nil {
		t.Error("a mount was removed")
	}
	page, err := files.List(t.Context(), w, files.ListOptions{Depth: 5})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("listed %+v, %v", page.Items, err)
	}
	w.untouched()
}

func TestMoveMakeAndRemove(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.put("a", "1")
	w.put("b", "2")
	w.put("dir/x", "3")
	for what, c := range map[string]struct {
		err  error
		code api.Code
	}{
		"move onto a file":        {w.Rename(ctx, "a", "b", false), api.CodeFileExists},
		"move what is not":        {w.Rename(ctx, "none", "c/d", true), api.CodeFileNotFound},
		"move a folder in itself": {w.Rename(ctx, "dir", "dir/below/dir", false), api.CodeInvalidPath},
		"move the root":           {w.Rename(ctx, "", "x", false), api.CodeInvalidPath},
		"move onto the root":      {w.Rename(ctx, "a", "", true), api.CodeInvalidPath},
		"move below a file":       {w.Rename(ctx, "a", "b/c", true), api.CodeNotADirectory},
		"remove the root":         {w.Remove(ctx, "", true), api.CodeInvalidPath},
		"remove what is not":      {w.Remove(ctx, "none", true), api.CodeFileNotFound},
		"remove a full folder":    {w.Remove(ctx, "dir", false), api.CodeNotEmpty},
		"folder where a file is":  {w.Mkdir(ctx, "a"), api.CodeNotADirectory},
		"folder below a file":     {w.Mkdir(ctx, "a/b"), api.CodeNotADirectory},
		"write a folder":          {w.write("dir", "x"), api.CodeIsADirectory},
		"write the root":          {w.write("", "x"), api.CodeInvalidPath},
		"write a long name":       {w.write(strings.Repeat("x", 300), "x"), api.CodeInvalidPath},
		"write a NUL":             {w.write("a\x00", "x"), api.CodeInvalidPath},
		"link where a file is":    {w.Symlink(ctx, "t", "a"), api.CodeFileExists},
		"link the root":           {w.Symlink(ctx, "t", ""), api.CodeInvalidPath},
	} {
		isCode(t, what, c.err, c.code)
	}
	if _, err := w.Open(ctx, "dir"); err == nil {
		t.Error("opened a folder")
	}
	if got := w.names("") + " | " + w.names("dir"); got != "a b dir | x" {
		t.Errorf("refused calls left %s", got)
	}
	if err := errors.Join(w.Rename(ctx, "a", "b", true), w.Rename(ctx, "dir", "new/place", false), w.Mkdir(ctx, "p/q"), w.Mkdir(ctx, "p/q"), w.Symlink(ctx, "../b", "l/k")); err != nil {
		t.Fatal(err)
	}
	w.want("b", "1")
	w.want("new/place/x", "3")
	w.want("l/k", "1")
	if err := errors.Join(w.Remove(ctx, "p/q", false), w.Remove(ctx, "new", true), w.Remove(ctx, "l", true)); err != nil || w.names("") != "b p" {
		t.Errorf("%v, left %s", err, w.names(""))
	}
}

func TestClosedDirSaysSo(t *testing.T) {
	w := newWorld(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := w.Stat(t.Context(), "x")
	isCode(t, "stat after close", err, api.CodeInternal)
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestNewDirTakesDirectoriesOnly(t *testing.T) {
	w := newWorld(t)
	w.put("file", "x")
	f, err := os.Open(w.at("file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := files.NewDir(f, files.Owner{}); err == nil {
		t.Error("a file became a directory")
	}
	_ = f.Close()
	if _, err := files.NewDir(f, files.Owner{}); err == nil {
		t.Error("a closed file became a directory")
	}
}

// A time that no calendar has must not break a list.
func TestStrangeTimesAreTold(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("files-test", mount, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	path := filepath.Join(mount, "old")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.NewDir(dir, files.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, sec := range []int64{1 << 60, -1 << 60, 0} {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: sec}, {Sec: sec}}, 0); err != nil {
			t.Fatal(err)
		}
		info, err := d.Stat(t.Context(), "old")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := info.ModTime.MarshalJSON(); err != nil {
			t.Errorf("%d: %v", sec, err)
		}
	}
}

func TestReadersSeekAndReadAt(t *testing.T) {
	w := newWorld(t)
	w.put("f", "0123456789")
	r, err := w.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	part, err := io.ReadAll(io.NewSectionReader(r, 3, 4))
	if err != nil || string(part) != "3456" {
		t.Errorf("read %q, %v", part, err)
	}
	if end, err := r.Seek(0, io.SeekEnd); err != nil || end != 10 {
		t.Errorf("ends at %d, %v", end, err)
	}
}
