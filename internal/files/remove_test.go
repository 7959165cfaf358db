package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"golang.org/x/sys/unix"
)

// deepTree makes folders within folders, each with a file beside the next, under the root.
func (w *world) deepTree(name string, levels int) {
	w.t.Helper()
	if err := os.Mkdir(w.at(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	fd, err := unix.Open(w.at(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for range levels {
		err := unix.Mkdirat(fd, "d", 0o755)
		if err == nil {
			err = unix.Mknodat(fd, "f", unix.S_IFREG|0o644, 0)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		_ = unix.Close(fd)
		if err != nil {
			w.t.Fatal(err)
		}
		fd = next
	}
	_ = unix.Close(fd)
}

// B4 8: a path of such a tree is longer than the kernel takes.
func TestDeepTreeIsListedPackedAndRemoved(t *testing.T) {
	w := newWorld(t)
	levels := testkit.Size(t, "files.levels")
	w.deepTree("deep", levels)
	ctx := t.Context()
	page, err := files.List(ctx, w, files.ListOptions{Depth: 1 << 20, Limit: 10_000})
	if err != nil || len(page.Items) < 4000 || page.Next != "" {
		t.Errorf("listed %d of %d levels, next %q, %v", len(page.Items), levels, page.Next, err)
	}
	if _, _, err := files.Tree(ctx, w, files.TreeOptions{Depth: 1 << 20, Limit: 100_000}); err != nil {
		t.Errorf("tree: %v", err)
	}
	var n counter
	packed, err := files.Pack(ctx, w, &n, files.PackOptions{})
	if err != nil || packed.Entries != 2*levels+1 || packed.Skipped != 0 {
		t.Errorf("packed %+v, %v", packed, err)
	}
	before := openFiles(t)
	if err := w.Remove(ctx, "deep", true); err != nil || w.names("") != "" {
		t.Errorf("removed: %v, left %q", err, w.names(""))
	}
	if after := openFiles(t); after > before+8 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestRemoveTakesLinksAndNotWhereTheyLead(t *testing.T) {
	w := newWorld(t)
	w.put("dir/a/file", "x")
	w.link(w.outside, "dir/a/out")
	w.link("../../keep", "dir/a/in")
	w.put("keep/file", "kept")
	if err := w.Remove(t.Context(), "dir", true); err != nil {
		t.Fatal(err)
	}
	w.untouched()
	w.want("keep/file", "kept")
}

// Somebody who adds as fast as it is removed costs time, which the context bounds.
func TestRemoveEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.put("dir/f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Remove(ctx, "dir", true); !errors.Is(err, context.Canceled) {
		t.Errorf("removed after the end: %v", err)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.MkdirAll(w.at(fmt.Sprintf("dir/%d/x/y", i%7)), 0o755)
			}
		}
	})
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		switch err := w.Remove(ctx, "dir", true); {
		case err == nil, errors.Is(err, context.DeadlineExceeded):
		case !isOneOf(err, api.CodeNotEmpty, api.CodeFileNotFound):
			t.Errorf("removed meanwhile: %v", err)
		}
	}
	close(stop)
	all.Wait()
	if err := os.RemoveAll(w.at("dir")); err != nil {
		t.Fatal(err)
	}
}

// A folder that is carried away while its inside is being removed is not followed.
func TestRemoveNoticesThatItsFolderWasMoved(t *testing.T) {
	w := newWorld(t)
	w.deepTree("deep", 300)
	w.put("elsewhere/kept", "kept")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Remove(ctx, "deep", true) }()
	// Whenever this hits, the walk ends or finishes; what lies elsewhere is out of its reach.
	_ = os.Rename(w.at("deep/d/d/d/d/d"), w.at("elsewhere/taken"))
	err := <-done
	if err != nil && !isOneOf(err, api.CodeConflict, api.CodeNotEmpty, api.CodeFileNotFound) {
		t.Errorf("removed: %v", err)
	}
	w.want("elsewhere/kept", "kept")
}
