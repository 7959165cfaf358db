package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/guest/wire"
	"github.com/berthdev/berth/internal/testkit"
)

// watched makes a spool in a directory that stays open, as the helper's does.
func watched(t *testing.T, keep int64) (w *Writer, root string) {
	t.Helper()
	root = t.TempDir()
	d, err := os.Open(root)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	w, err = Create(int(d.Fd()), "p", keep)
	must(t, err)
	t.Cleanup(func() { _ = w.Sync() })
	return w, root
}

// flood writes until the writer would have to wait, or until it has written a lot.
func flood(t *testing.T, w *Writer) (held bool) {
	t.Helper()
	for w.end < 16<<20 {
		if w.Held() {
			return true
		}
		must(t, w.Write(1, tape(w.end, MaxFrame)))
	}
	return false
}

// reading starts a reader that takes one frame and then waits to be let go.
func reading(t *testing.T, root string, patience time.Duration) (letGo func(), end chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	t.Cleanup(cancel)
	first, hold, end := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		f := &follower{}
		var last error
		for g, err := range Follow(ctx, root, "p", 0, patience) {
			if err == nil {
				err = f.take(g)
			}
			if last = err; err != nil {
				break
			}
			if f.next == MaxFrame {
				close(first)
				<-hold
			}
		}
		end <- last
	}()
	<-first
	return func() { close(hold) }, end
}

func TestWriterWaitsForAReaderThatGoesOn(t *testing.T) {
	w, root := watched(t, minSegment)
	must(t, w.Write(1, tape(0, MaxFrame)))
	letGo, end := reading(t, root, time.Hour)
	if !flood(t, w) {
		t.Fatal("the writer did not wait for its reader")
	}
	letGo()
	for range 40 {
		testkit.Eventually(t, patience, func() error {
			if w.Held() {
				return errors.New("the writer waits for a reader that goes on")
			}
			return nil
		})
		must(t, w.Write(1, tape(w.end, MaxFrame)))
	}
	finish(t, w, wire.Exit{})
	if err := <-end; err != nil {
		t.Errorf("the reader got %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(root, readersDir)); err != nil || len(left) > 0 {
		t.Errorf("readers that are gone left %v, %v", left, err)
	}
}

func TestWriterGivesUpAReaderThatStandsStill(t *testing.T) {
	w, root := watched(t, minSegment)
	must(t, w.Write(1, tape(0, MaxFrame)))
	letGo, end := reading(t, root, 50*time.Millisecond)
	if !flood(t, w) {
		t.Fatal("the writer did not wait for its reader")
	}
	testkit.Eventually(t, patience, func() error {
		if w.Held() {
			return errors.New("the writer waits for ever")
		}
		return nil
	})
	if flood(t, w) {
		t.Error("the writer waits again for a reader that it gave up")
	}
	letGo()
	if err := <-end; err != ErrTrimmed {
		t.Errorf("the reader got %v, want ErrTrimmed", err)
	}
}

// A reader that was announced is waited for from the first byte on, and one that does not come is forgotten.
func TestAnnouncedReader(t *testing.T) {
	w, root := watched(t, minSegment)
	forget := Expect(root, "p", time.Hour)
	if !flood(t, w) {
		t.Fatal("the writer did not wait for the announced reader")
	}
	for g, err := range Follow(t.Context(), root, "p", 0, time.Hour) {
		if err != nil || g.Next != MaxFrame {
			t.Errorf("the first frame is %d, %v", g.Next, err)
		}
		break
	}
	if flood(t, w) {
		t.Error("the writer waits for a reader that has left")
	}
	forget() // it has come
	w, root = watched(t, minSegment)
	forget = Expect(root, "p", time.Hour)
	forget()
	if flood(t, w) {
		t.Error("the writer waits for a reader that does not come")
	}
}

// Files without a living reader, and files of other spools' readers, hold nothing back.
func TestWriterDoesNotWaitForTheDead(t *testing.T) {
	w, root := watched(t, minSegment)
	must(t, os.Mkdir(filepath.Join(root, readersDir), 0o700))
	for i, name := range []string{"p.0000000000000001", "p", "p.", "pq.1"} {
		b := appendInt(appendInt(nil, 0), int64(time.Hour))
		must(t, os.WriteFile(filepath.Join(root, readersDir, name), b[:len(b)-i], 0o600))
	}
	other := newMark(root, "pq", 0, time.Hour)
	defer other.close()
	if flood(t, w) {
		t.Error("the writer waits for a reader that is gone")
	}
	finish(t, w, wire.Exit{})
	must(t, Close(root, wire.Exit{}))
	left, err := os.ReadDir(filepath.Join(root, readersDir))
	if err != nil || len(left) != 1 || fmt.Sprint(left[0].Name()) != filepath.Base(other.path) {
		t.Errorf("left after the sweep: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(root, readersDir, exitFile)); !os.IsNotExist(err) {
		t.Errorf("the directory of readers was taken for a spool: %v", err)
	}
}
