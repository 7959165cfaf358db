package spool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/berthdev/berth/internal/guest/wire"
)

// tape is an endless output of which every byte tells its offset, more or less.
func tape(at int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint64(at+int64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	return b
}

// follower checks what one reader sees of a tape.
type follower struct {
	writer *Writer
	next   int64 // negative: the oldest there is
	trims  int
}

func (f *follower) take(g Frame) error {
	start := g.Next - int64(len(g.Data))
	if f.next >= 0 && start != f.next {
		return fmt.Errorf("a frame from %d to %d comes at %d", start, g.Next, f.next)
	}
	if want := tape(start, len(g.Data)); string(want) != string(g.Data) {
		return fmt.Errorf("the frame from %d to %d has other bytes", start, g.Next)
	}
	f.next = g.Next
	return nil
}

// trimmed goes on at the oldest, if what comes next is gone for sure.
func (f *follower) trimmed() error {
	f.writer.mu.Lock()
	oldest := f.writer.starts[0]
	f.writer.mu.Unlock()
	if f.next >= oldest {
		return fmt.Errorf("%d is said to be gone, and the oldest is %d", f.next, oldest)
	}
	f.next, f.trims = -1, f.trims+1
	return nil
}

// follow reads to the end; slow runs before every frame.
func (f *follower) follow(ctx context.Context, dir string, slow func()) error {
	for {
		exit, err := f.pass(ctx, dir, slow)
		if err == ErrTrimmed {
			err = f.trimmed()
		}
		if exit || err != nil {
			return err
		}
	}
}

func (f *follower) pass(ctx context.Context, dir string, slow func()) (exit bool, err error) {
	for g, err := range Read(ctx, dir, f.next) {
		if err != nil {
			return false, err
		}
		slow()
		if err := f.take(g); err != nil {
			return false, err
		}
		exit = g.Exit != nil
	}
	return exit, nil
}

// Readers, fast and slow, see all that is written while old segments go, or learn that some is gone.
func TestReadersKeepUpWithATrimmingWriter(t *testing.T) {
	forEachWay(t, func(t *testing.T) {
		w, dir := create(t, minSegment)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		var wg sync.WaitGroup
		turns := make(chan struct{}) // the writer and the slow readers wait for each other
		done := make(chan struct{})
		slow := func() {
			select {
			case turns <- struct{}{}:
			case <-done:
			case <-ctx.Done():
			}
		}
		followers := make([]*follower, 4)
		for i := range followers {
			followers[i] = &follower{writer: w, next: -1}
			pace := func() {}
			if i%2 == 1 {
				pace = slow
			}
			wg.Go(func() {
				if err := followers[i].follow(ctx, dir, pace); err != nil {
					t.Errorf("reader %d: %v", i, err)
				}
			})
		}
		random := rand.New(rand.NewPCG(1, 2))
		var end int64
		for range 3000 {
			piece := tape(end, 1+random.IntN(4<<10))
			must(t, w.Write(uint8(1+random.IntN(2)), piece))
			end += int64(len(piece))
			if random.IntN(8) == 0 {
				select {
				case <-turns:
				case <-ctx.Done():
					t.Fatal(ctx.Err())
				}
			}
		}
		close(done)
		finish(t, w, wire.Exit{})
		wg.Wait()
		for i, f := range followers {
			if f.next != end || i%2 == 1 && f.trims == 0 {
				t.Errorf("reader %d ends at %d of %d, left behind %d times", i, f.next, end, f.trims)
			}
		}
	})
}

// Whatever order things happen in, a look sees all there is, or that what comes next is gone.
func TestAnyOrderOfWritesAndLooks(t *testing.T) {
	root, err := os.Open(t.TempDir())
	must(t, err)
	defer root.Close()
	var n int64
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := segmentName(n)
		w, err := Create(int(root.Fd()), id, minSegment)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = w.Sync(); _ = Remove(int(root.Fd()), id) }()
		h := history{T: rt, w: w, dir: filepath.Join(root.Name(), id)}
		defer func() { h.r.close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"write":   func(rt *rapid.T) { h.write(rapid.IntRange(1, MaxFrame).Draw(rt, "bytes")) },
			"line":    func(rt *rapid.T) { h.write(rapid.IntRange(1, 100).Draw(rt, "bytes")) },
			"segment": func(rt *rapid.T) { h.write(filled) },
			"full":    func(*rapid.T) { w.mu.Lock(); w.dropAllButNewest(); w.mu.Unlock() },
			"look":    h.look,
			"restart": func(*rapid.T) { h.restart(-1) },
		})
	})
}

// history is a spool and a reader of it, in turn.
type history struct {
	*rapid.T
	w    *Writer
	dir  string
	r    reader
	seen follower
}

func (h *history) write(n int) {
	_, end := h.w.Range()
	if err := h.w.Write(1, tape(end, n)); err != nil {
		h.Fatal(err)
	}
}

func (h *history) restart(after int64) {
	h.r.close()
	h.r = reader{dir: h.dir, next: after}
	h.seen = follower{writer: h.w, next: after}
}

// look is one wake-up of the reader, during which more may be written.
func (h *history) look(rt *rapid.T) {
	if h.r.dir == "" {
		h.restart(0)
	}
	during := rapid.SliceOfN(rapid.IntRange(0, MaxFrame), 0, 5).Draw(rt, "written meanwhile")
	if _, exit, err := h.r.readEnd(); exit != nil || err != nil {
		rt.Fatalf("exit %v, error %v", exit, err)
	}
	_, err := h.r.catchUp(context.Background(), true, func(f Frame, _ error) bool {
		if err := h.seen.take(f); err != nil {
			rt.Fatal(err)
		}
		if len(during) > 0 {
			if during[0] > 0 {
				h.write(during[0])
			}
			during = during[1:]
		}
		return true
	})
	_, end := h.w.Range()
	switch {
	case err == ErrTrimmed:
		if err := h.seen.trimmed(); err != nil {
			rt.Fatal(err)
		}
		h.restart(-1)
	case err != nil:
		rt.Fatal(err)
	case end > 0 && h.r.next != end:
		rt.Fatalf("a look ends at %d of %d", h.r.next, end)
	}
}
