package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
	"github.com/berthdev/berth/internal/testkit"
)

const patience = 30 * time.Second

// create makes a spool and says where.
func create(t testing.TB, keep int64) (w *Writer, dir string) {
	t.Helper()
	root := t.TempDir()
	d, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err = Create(int(d.Fd()), "p", keep)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Sync() })
	return w, filepath.Join(root, "p")
}

func write(t *testing.T, w *Writer, stream uint8, text string) {
	t.Helper()
	if err := w.Write(stream, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, w *Writer, x wire.Exit) {
	t.Helper()
	if err := w.Finish(x); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
}

// read reads a spool from an offset to its end.
func read(t *testing.T, dir string, after int64) (text string, exit *wire.Exit, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next := after
	for f, err := range Read(ctx, dir, after) {
		if err != nil {
			return text, exit, err
		}
		if next += int64(len(f.Data)); f.Next != next {
			t.Fatalf("a frame of %d bytes leads to %d, not to %d", len(f.Data), f.Next, next)
		}
		text += string(f.Data)
		exit = f.Exit
	}
	return text, exit, nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	w, dir := create(t, 1<<20)
	write(t, w, 1, "out ")
	write(t, w, 2, "err ")
	write(t, w, 1, strings.Repeat("x", MaxFrame))
	finish(t, w, wire.Exit{Code: 3, Reason: strings.Repeat("long ", 1000)})
	var streams []byte
	for f, err := range Read(t.Context(), dir, 0) {
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, f.Stream)
	}
	if !bytes.Equal(streams, []byte{1, 2, 1, 0}) {
		t.Errorf("streams %v", streams)
	}
	whole := "out err " + strings.Repeat("x", MaxFrame)
	for _, after := range []int64{0, 1, 4, 5, 8, 9, 100, int64(len(whole)) - 1, int64(len(whole))} {
		if text, exit, err := read(t, dir, after); err != nil || text != whole[after:] || exit == nil || exit.Code != 3 {
			t.Errorf("after %d: %d bytes, exit %+v, error %v", after, len(text), exit, err)
		}
	}
	if _, _, err := read(t, dir, int64(len(whole))+1); err != ErrBeyond {
		t.Errorf("behind the end: %v", err)
	}
	if first, end := w.Range(); first != 0 || end != int64(len(whole)) {
		t.Errorf("from %d to %d", first, end)
	}
}

func TestAnEndedSpoolTakesNothing(t *testing.T) {
	w, _ := create(t, 1<<20)
	for _, p := range [][]byte{nil, make([]byte, MaxFrame+1)} {
		if err := w.Write(1, p); err == nil {
			t.Errorf("a frame of %d bytes was written", len(p))
		}
	}
	finish(t, w, wire.Exit{})
	if w.Write(1, []byte("x")) == nil || w.Finish(wire.Exit{}) == nil || w.Sync() == nil {
		t.Error("something was written behind the end")
	}
}

func TestSpoolsAreMadeOnce(t *testing.T) {
	w, dir := create(t, 1<<20)
	d, err := os.Open(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := Create(int(d.Fd()), "p", 1); err != ErrExists {
		t.Errorf("again: %v", err)
	}
	finish(t, w, wire.Exit{})
	if _, err := Create(int(d.Fd()), "p", 1); err != ErrExists {
		t.Errorf("after its end: %v", err)
	}
	if _, err := Create(-1, "p", 1); err == nil {
		t.Error("made nowhere")
	}
}

func TestOldSegmentsGo(t *testing.T) {
	const keep = 256 << 10
	w, dir := create(t, keep)
	line := strings.Repeat("0123456789abcdef", 256)
	for i := range 1000 {
		write(t, w, 1, line)
		first, end := w.Range()
		if end-first > keep+2*segmentSize(keep)+MaxFrame || end > keep && end-first < keep {
			t.Fatalf("after %d writes: from %d to %d", i+1, first, end)
		}
	}
	if size := diskUse(t, dir); size > 2*keep {
		t.Errorf("%d bytes on the disk, with %d to keep", size, keep)
	}
	finish(t, w, wire.Exit{})
	first, end := w.Range()
	for _, after := range []int64{0, 1, first - 1} {
		if _, _, err := read(t, dir, after); err != ErrTrimmed {
			t.Errorf("after %d: %v", after, err)
		}
	}
	if text, _, err := read(t, dir, first); err != nil || int64(len(text)) != end-first {
		t.Errorf("%d bytes are left, error %v", len(text), err)
	}
}

func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// A reader that falls behind learns it; one that holds a segment may finish that.
func TestAReaderFallsBehind(t *testing.T) {
	const keep = minSegment
	w, dir := create(t, keep)
	line := strings.Repeat("x", 1<<10)
	for range 64 {
		write(t, w, 1, line)
	}
	first, _ := w.Range()
	var got int64
	var last error
	for f, err := range Read(t.Context(), dir, first) {
		if last = err; err != nil {
			break
		}
		if got += int64(len(f.Data)); got == 1<<10 {
			for range 256 {
				write(t, w, 1, line)
			}
		}
	}
	if last != ErrTrimmed || got < 1<<10 {
		t.Errorf("%d bytes, error %v", got, last)
	}
}

// forEachWay runs a test with inotify and without.
func forEachWay(t *testing.T, test func(t *testing.T)) {
	t.Run("Inotify", test)
	t.Run("Polling", func(t *testing.T) {
		kept := theHub
		theHub = func() *hub { return nil }
		defer func() { theHub = kept }()
		test(t)
	})
}

func TestReadersFollow(t *testing.T) {
	forEachWay(t, func(t *testing.T) {
		w, dir := create(t, 64<<10)
		const readers = 5
		texts := make([]string, readers)
		seen := make(chan int64, 10_000)
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				for f, err := range Read(t.Context(), dir, 0) {
					if err != nil {
						t.Error(err)
						return
					}
					texts[i] += string(f.Data)
					seen <- f.Next
				}
			})
		}
		var whole string
		for i := range 20 {
			text := fmt.Sprintf("line %d\n", i)
			whole += text
			write(t, w, uint8(1+i%2), text)
			for range readers { // each has seen it before there is more
				for <-seen < int64(len(whole)) {
				}
			}
		}
		finish(t, w, wire.Exit{Code: 9})
		wg.Wait()
		for i, text := range texts {
			if text != whole {
				t.Errorf("reader %d: %q", i, text)
			}
		}
	})
}

func TestReadersStop(t *testing.T) {
	forEachWay(t, func(t *testing.T) {
		w, dir := create(t, 1<<20)
		write(t, w, 1, "one")
		write(t, w, 1, "two")
		for range Read(t.Context(), dir, 0) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for _, err := range Read(ctx, dir, 0) {
			last = err
			cancel()
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("cancelled: %v", last)
		}
	})
	if h := theHub(); h != nil {
		testkit.Eventually(t, patience, func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if n := len(h.subscriptions); n != 0 {
				return fmt.Errorf("%d directories are still watched", n)
			}
			return nil
		})
	}
}

// A full disk loses output, not the spool.
func TestFullDisk(t *testing.T) {
	w, dir := create(t, minSegment)
	line := strings.Repeat("x", 16<<10)
	for range 3 {
		write(t, w, 1, line)
	}
	real := w.segment
	full, err := unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.segment = full
	if err := w.Write(1, []byte("lost")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	unix.Close(full)
	w.segment = real
	if first, end := w.Range(); first == 0 || end != 3*int64(len(line)) {
		t.Errorf("from %d to %d: older output was to go, and the offset to stay", first, end)
	}
	write(t, w, 1, "found")
	finish(t, w, wire.Exit{})
	first, _ := w.Range()
	if text, _, err := read(t, dir, first); err != nil || !strings.HasSuffix(text, "xfound") {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
}
