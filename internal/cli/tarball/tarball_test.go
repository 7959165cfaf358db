package tarball_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/cli/tarball"
)

func open(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// look lists a folder: the content of each file by its path.
func look(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		switch {
		case e.IsDir():
			found[name] = "folder"
		case e.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(at)
			found[name] = "-> " + target
		case e.Type().IsRegular():
			data, _ := os.ReadFile(at)
			found[name] = string(data)
		default:
			found[name] = "special"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// entry is one of a hostile archive.
type entry struct {
	name, body, link string
	kind             byte
}

func archive(t testing.TB, entries ...entry) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.body)), Mode: 0o4755, ModTime: time.Unix(1, 0), Format: tar.FormatPAX}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.kind, PAXRecords: map[string]string{"comment": e.body}}
			e.body = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestFolderComesOutAsItWentIn(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "a/b/deep.txt"), "deep")
	write(t, filepath.Join(from, "-rf"), "")
	write(t, filepath.Join(from, "big"), strings.Repeat("x", 1<<20))
	old := time.Unix(1e9, 0)
	for name, err := range map[string]error{
		"times":  os.Chtimes(filepath.Join(from, "big"), old, old),
		"mode":   os.Chmod(filepath.Join(from, "-rf"), 0o500),
		"link":   os.Symlink("../big", filepath.Join(from, "a/link")),
		"folder": os.Mkdir(filepath.Join(from, "empty"), 0o555),
		"pipe":   syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	files, size, err := tarball.Measure(t.Context(), open(t, from))
	if files != 3 || size != 1<<20+4 || err != nil {
		t.Errorf("measured %d files of %d bytes, %v", files, size, err)
	}
	var b bytes.Buffer
	var seenFiles int
	var seenBytes int64
	watch := func(files int, bytes int64) { seenFiles += files; seenBytes += bytes }
	packed, err := tarball.Pack(t.Context(), &b, open(t, from), watch)
	if err != nil || len(packed.Left) != 1 || packed.Left[0].Name != "pipe" {
		t.Fatalf("packed %+v, %v", packed, err)
	}
	unpacked, err := tarball.Unpack(t.Context(), &b, open(t, to), watch)
	if err != nil || unpacked.Files != 3 || unpacked.Folders != 3 || unpacked.Links != 1 || unpacked.Bytes != size || seenFiles != 6 || seenBytes != 2*size {
		t.Errorf("unpacked %+v, %v; seen %d files, %d bytes", unpacked, err, seenFiles, seenBytes)
	}
	_ = os.Remove(filepath.Join(from, "pipe"))
	if got, want := look(t, to), look(t, from); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name, want := range map[string]fs.FileMode{"-rf": 0o500, "empty": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "big")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("big is from %v, %v", info.ModTime(), err)
	}
}

// TestHostileArchiveStaysInTheFolder: whatever a sandbox sends, everything beside the folder is as it was.
func TestHostileArchiveStaysInTheFolder(t *testing.T) {
	for name, c := range map[string]struct {
		entries []entry
		want    string // in the error, or in what was left out
		fails   bool
	}{
		"goes up":                  {[]entry{{name: "../evil", body: "x"}}, "leads out", true},
		"goes up in the middle":    {[]entry{{name: "a/../../evil", body: "x"}}, "leads out", true},
		"absolute":                 {[]entry{{name: "/evil", body: "x"}}, "leads out", true},
		"link to outside":          {[]entry{{name: "l", link: "../beside", kind: tar.TypeSymlink}}, "leads out", false},
		"absolute link":            {[]entry{{name: "l", link: "/etc/passwd", kind: tar.TypeSymlink}}, "/etc/passwd", false},
		"empty link":               {[]entry{{name: "l", link: "", kind: tar.TypeSymlink}}, "leads out", false},
		"through its own link":     {[]entry{{name: "l", link: ".", kind: tar.TypeSymlink}, {name: "l/evil", body: "x"}}, "is a link and cannot become a folder", true},
		"up behind a link":         {[]entry{{name: "a", link: ".", kind: tar.TypeSymlink}, {name: "z", link: "a/a/../../beside", kind: tar.TypeSymlink}}, "leads out", false},
		"through a link of ours":   {[]entry{{name: "ours/evil", body: "x"}}, "is a link and cannot become a folder", true},
		"over a link of ours":      {[]entry{{name: "ours", body: "x"}}, "", false},
		"link over a link of ours": {[]entry{{name: "ours", link: "kept", kind: tar.TypeSymlink}}, "", false},
		"file over a folder":       {[]entry{{name: "folder", body: "x"}}, "is a folder and cannot become a file", true},
		"link over a folder":       {[]entry{{name: "folder", link: "kept", kind: tar.TypeSymlink}}, "is a folder and cannot become a link", true},
		"folder over a file":       {[]entry{{name: "kept", kind: tar.TypeDir}}, "is a file and cannot become a folder", true},
		"below a file":             {[]entry{{name: "kept/evil", body: "x"}}, "is a file and cannot become a folder", true},
		"device":                   {[]entry{{name: "d", kind: tar.TypeBlock}}, "not a file, folder or link", false},
		"pipe":                     {[]entry{{name: "p", kind: tar.TypeFifo}}, "not a file, folder or link", false},
		"hard link":                {[]entry{{name: "h", link: "../beside/secret", kind: tar.TypeLink}}, "not a file, folder or link", false},
		"the folder itself":        {[]entry{{name: "./", kind: tar.TypeDir}, {name: ".", kind: tar.TypeDir}}, "", false},
		"words of the packer":      {[]entry{{body: "1 left out: x", kind: tar.TypeXGlobalHeader}}, "1 left out: x", false},
	} {
		t.Run(name, func(t *testing.T) {
			whole := t.TempDir()
			dir := filepath.Join(whole, "folder")
			write(t, filepath.Join(whole, "beside/secret"), "secret")
			write(t, filepath.Join(dir, "kept"), "kept")
			write(t, filepath.Join(dir, "folder/inner"), "inner")
			if err := os.Symlink("../beside", filepath.Join(dir, "ours")); err != nil {
				t.Fatal(err)
			}
			tally, err := tarball.Unpack(t.Context(), archive(t, c.entries...), open(t, dir), nil)
			if told := fmt.Sprint(err, tally.Left); (err != nil) != c.fails || !strings.Contains(told, c.want) {
				t.Errorf("%s; want %q", told, c.want)
			}
			if beside := look(t, filepath.Join(whole, "beside")); !maps.Equal(beside, map[string]string{"secret": "secret"}) {
				t.Errorf("beside the folder there is %v", beside)
			}
			if all, _ := os.ReadDir(whole); len(all) != 2 {
				t.Errorf("beside the folder there is %v", all)
			}
			now := look(t, dir)
			if now["kept"] != "kept" || now["folder/inner"] != "inner" {
				t.Errorf("what was there is lost: %v", now)
			}
			for at, what := range now {
				if strings.HasPrefix(what, "->") && at != "ours" {
					if real, err := filepath.EvalSymlinks(filepath.Join(dir, at)); err == nil && !strings.HasPrefix(real, dir) {
						t.Errorf("%s leads to %s", at, real)
					}
				}
				if strings.Contains(at, ".berth-cp-") {
					t.Errorf("%s is left over", at)
				}
			}
		})
	}
}

func TestModesOfStrangersAreTamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := tarball.Unpack(t.Context(), archive(t, entry{name: "suid", body: "x"}), open(t, dir), nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "suid")); err != nil || info.Mode()&^0o755 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestArchiveThatBreaksOffLeavesNoHalfFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "old")
	whole, _ := io.ReadAll(archive(t, entry{name: "a", body: strings.Repeat("new", 1000)}))
	_, err := tarball.Unpack(t.Context(), bytes.NewReader(whole[:1500]), open(t, dir), nil)
	if got := look(t, dir); !errors.Is(err, io.ErrUnexpectedEOF) || !maps.Equal(got, map[string]string{"a": "old"}) {
		t.Errorf("%v, left %v", err, got)
	}
	if _, err := tarball.Unpack(t.Context(), strings.NewReader(strings.Repeat("no tar", 200)), open(t, dir), nil); !errors.Is(err, tar.ErrHeader) {
		t.Errorf("no archive: %v", err)
	}
}

func TestCopyEndsWithTheContext(t *testing.T) {
	from := t.TempDir()
	write(t, filepath.Join(from, "a"), "a")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := tarball.Pack(ctx, io.Discard, open(t, from), nil); !errors.Is(err, stop) {
		t.Errorf("pack: %v", err)
	}
	if _, err := tarball.Unpack(ctx, archive(t, entry{name: "a", body: "x"}), open(t, from), nil); !errors.Is(err, stop) {
		t.Errorf("unpack: %v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	begun := func(files int, _ int64) {
		if files > 0 {
			cancel(stop)
		}
	}
	if _, err := tarball.Unpack(ctx, archive(t, entry{name: "b", body: "x"}), open(t, from), begun); !errors.Is(err, stop) {
		t.Errorf("in the middle of a file: %v", err)
	}
}

func TestFileThatShrinksIsAnError(t *testing.T) {
	from := t.TempDir()
	name := filepath.Join(from, "a")
	write(t, name, strings.Repeat("x", 1<<20))
	shrink := func(files int, _ int64) {
		if files > 0 {
			_ = os.Truncate(name, 10)
		}
	}
	if _, err := tarball.Pack(t.Context(), io.Discard, open(t, from), shrink); err == nil || !strings.Contains(err.Error(), "a became shorter") {
		t.Errorf("%v", err)
	}
}

// TestPackFollowsNoLink: a link in the folder is sent as a link, and a folder behind one is not looked into.
func TestPackFollowsNoLink(t *testing.T) {
	from := t.TempDir()
	write(t, filepath.Join(from, "beside/secret"), "secret")
	if err := os.MkdirAll(filepath.Join(from, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": "../beside", "file": "../beside/secret"} {
		if err := os.Symlink(target, filepath.Join(from, "dir", link)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	tally, err := tarball.Pack(t.Context(), &b, open(t, filepath.Join(from, "dir")), nil)
	if err != nil || tally.Links != 2 || tally.Files != 0 {
		t.Errorf("%+v, %v", tally, err)
	}
}
