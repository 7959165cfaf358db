package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

func TestPruneKeepsTheNewest(t *testing.T) {
	root := t.TempDir()
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 5 {
		id := fmt.Sprint("p", i)
		w, err := Create(int(d.Fd()), id, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, 1, strings.Repeat("x", 1000))
		finish(t, w, wire.Exit{})
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(root, id), at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := func(most int, bytes int64) string {
		t.Helper()
		if err := Prune(root, most, bytes); err != nil {
			t.Fatal(err)
		}
		names, _ := filepath.Glob(root + "/*")
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		return strings.Join(names, " ")
	}
	if got := left(4, 1<<20); got != "p1 p2 p3 p4" {
		t.Errorf("four of them: %s", got)
	}
	if got := left(9, 2500); got != "p3 p4" {
		t.Errorf("2,500 bytes of them: %s", got)
	}
	if err := Prune(root+"/none", 1, 1); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if err := Remove(int(d.Fd()), "nobody"); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
}

// A reader that has read its segment to the end looks for the next one; meanwhile the writer may have
// written on, made further ones and dropped old ones.
func TestFastWriterIsNotTakenForATrimmedSpool(t *testing.T) {
	w, dir := create(t, 64<<20)
	write(t, w, 1, "first")
	r := reader{dir: dir}
	defer r.close()
	var got strings.Builder
	yield := func(f Frame, err error) bool { got.Write(f.Data); return err == nil }
	if _, err := r.catchUp(t.Context(), true, yield); err != nil {
		t.Fatal(err)
	}
	piece := strings.Repeat("y", MaxFrame)
	for range 2 * maxSegment / MaxFrame {
		write(t, w, 1, piece)
	}
	// It stands in the middle of a segment that is long complete.
	if more, err := r.move(); !more || err != nil {
		t.Fatalf("more %v, %v", more, err)
	}
	if _, err := r.catchUp(t.Context(), true, yield); err != nil || got.Len() != len("first")+2*maxSegment {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

func TestFullDiskMakesNoSpool(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k,nr_inodes=20"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(root, unix.MNT_DETACH) }()
	if err := os.WriteFile(root+"/full", make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := Create(int(d.Fd()), "p", 1<<20); err != unix.ENOSPC {
		t.Errorf("Create: %v", err)
	}
	if left, err := filepath.Glob(root + "/p*"); err != nil || len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
