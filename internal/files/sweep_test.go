package files_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/files"
)

const leftover = ".berth-tmp-abcdefghijklmnopqrstuvwx27"

func TestIsUpload(t *testing.T) {
	for name, want := range map[string]bool{
		leftover: true, ".berth-tmp-" + strings.Repeat("a", 26): true,
		".berth-tmp-": false, ".berth-tmp-notes": false, leftover + "a": false, leftover[:len(leftover)-1]: false,
		strings.ToUpper(leftover): false, ".berth-tmp-" + strings.Repeat("1", 26): false, "x" + leftover: false,
		".berth-tmp-0123456789abcdef": false, // a restore's
	} {
		if got := files.IsUpload(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// openDir opens a directory as an FS.
func openDir(t *testing.T, path string) *files.Dir {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.NewDir(f, files.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func put(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// later is a time after everything that was written so far.
func later() time.Time { return time.Now().Add(time.Hour) }

// A sweep removes what cut-off uploads left, wherever that is, and nothing else: no file of the user's, no folder,
// nothing behind a link, and no upload that goes on.
func TestSweepRemovesWhatUploadsLeft(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	left := []string{put(t, filepath.Join(dir, leftover)), put(t, filepath.Join(dir, "a/b/c", leftover))}
	kept := []string{
		put(t, filepath.Join(dir, ".berth-tmp-notes")), put(t, filepath.Join(dir, "a", leftover+"x")),
		put(t, filepath.Join(dir, "d", leftover, "file")), put(t, filepath.Join(outside, leftover)),
	}
	for from, to := range map[string]string{"link": outside, "e": filepath.Join(outside, leftover), ".berth-tmp-" + strings.Repeat("b", 26): kept[3]} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, filepath.Join(dir, from))
	}
	d := openDir(t, dir)
	if n, err := d.Sweep(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("%d new files were removed, %v", n, err)
	}
	body, sender := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, _, err := d.Write(t.Context(), "slow", body, files.WriteOptions{})
		written <- err
	}()
	if _, err := sender.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(t.Context(), later()); n != len(left) || err != nil {
		t.Errorf("%d files were removed, %v; want %d", n, err, len(left))
	}
	for _, path := range left {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("an upload that went on: %v", err)
	}
}

// Uploads that go on, or were cut off, are in no list, tree or archive; files that begin like them are.
func TestUploadsAreNotListed(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a", leftover))
	put(t, filepath.Join(dir, "a", ".berth-tmp-notes"))
	put(t, filepath.Join(dir, "a", "z"))
	d := openDir(t, dir)
	page, err := files.List(t.Context(), d, files.ListOptions{Hidden: true, Depth: 5, Limit: 1})
	var names []string
	for ; err == nil; page, err = files.List(t.Context(), d, files.ListOptions{Hidden: true, Depth: 5, Limit: 1, Cursor: page.Next}) {
		for _, item := range page.Items {
			names = append(names, item.Path)
		}
		if page.Next == "" {
			break
		}
	}
	if got := strings.Join(names, " "); err != nil || got != "a a/.berth-tmp-notes a/z" {
		t.Errorf("the list is %q, %v", got, err)
	}
	root, _, err := files.Tree(t.Context(), d, files.TreeOptions{Hidden: true})
	if err != nil || len(root.Children) != 1 || len(root.Children[0].Children) != 2 {
		t.Errorf("the tree is %+v, %v", root, err)
	}
	var archive strings.Builder
	if _, err := files.Pack(t.Context(), d, &archive, files.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(archive.String(), leftover) || !strings.Contains(archive.String(), ".berth-tmp-notes") {
		t.Error("the archive has what an upload left, or lacks a user's file")
	}
}
