package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"golang.org/x/sys/unix"
)

// B4 5: a folder and a link that leads out change places all the time, while everything that can be
// asked of the files is. Not one byte comes from outside, and nothing out there changes.
func TestSwapOfFolderAndLinkNeverLeadsOut(t *testing.T) {
	testkit.Proves(t, "V4")
	w := newWorld(t)
	w.put("place/secret", "inside")
	w.link(w.outside, "other")
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(testkit.Size(t, "files.swap_ms"))*time.Millisecond)
	defer cancel()
	attacks := map[string]func() error{
		"read":   func() error { return w.checkRead("place/secret") },
		"list":   w.checkList,
		"pack":   w.checkPack,
		"write":  func() error { return ignore(w.write("place/secret", "inside")) },
		"remove": func() error { return w.removeAndPutBack() },
		"move":   func() error { return ignore(w.Rename(context.Background(), "place/secret", "place/moved", true)) },
		"mkdir":  func() error { return ignore(w.Mkdir(context.Background(), "place/new/folder")) },
		"link":   func() error { return ignore(w.Symlink(context.Background(), "secret", "place/link")) },
		"tree":   func() error { return ignore(w.Remove(context.Background(), "place/new", true)) },
	}
	var swaps atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for ; ctx.Err() == nil; swaps.Add(1) {
			if err := unix.Renameat2(unix.AT_FDCWD, w.at("place"), unix.AT_FDCWD, w.at("other"), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for name, attack := range attacks {
		all.Go(func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				if err := attack(); err != nil {
					t.Errorf("%s, after %d times: %v", name, n, err)
					return
				}
			}
			if n == 0 {
				t.Errorf("%s was never tried", name)
			}
		})
	}
	all.Wait()
	t.Logf("%d swaps", swaps.Load())
	w.untouched()
}

// ignore drops an error: that something cannot be done just now is no breach.
func ignore(error) error { return nil }

func (w *world) checkRead(path string) error {
	r, err := w.Open(context.Background(), path)
	if err != nil {
		return nil
	}
	defer r.Close()
	data, _ := io.ReadAll(r)
	if bytes.Contains(data, []byte(canary)) {
		return fmt.Errorf("read %q", data)
	}
	return nil
}

func (w *world) checkList() error {
	page, err := files.List(context.Background(), w, files.ListOptions{Depth: 3, Hidden: true})
	if err != nil {
		return nil
	}
	for _, item := range page.Items {
		if item.Size == int64(len(canary)) && strings.HasSuffix(item.Path, "/secret") {
			return fmt.Errorf("listed %s with the size of the one outside", item.Path)
		}
	}
	return nil
}

func (w *world) checkPack() error {
	var b bytes.Buffer
	_, _ = files.Pack(context.Background(), w, &b, files.PackOptions{})
	if bytes.Contains(b.Bytes(), []byte(canary)) {
		return fmt.Errorf("packed the canary")
	}
	return nil
}

func (w *world) removeAndPutBack() error {
	_ = w.Remove(context.Background(), "place/secret", true)
	if data, err := os.ReadFile(filepath.Join(w.outside, "secret")); err != nil || string(data) != canary {
		return fmt.Errorf("outside holds %q: %w", data, err)
	}
	return ignore(w.write("place/secret", "inside"))
}
