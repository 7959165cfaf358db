package spool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/guest/wire"
)

// walk is a reader that is moved along by hand.
type walk struct {
	reader
	text   strings.Builder
	during func() // runs before each frame is taken
}

func newWalk(t *testing.T, dir string, after int64) *walk {
	w := &walk{reader: reader{dir: dir, next: after}, during: func() {}}
	t.Cleanup(w.close)
	return w
}

// look is what a reader does when it is woken.
func (k *walk) look(t *testing.T) (exit *wire.Exit, err error) {
	t.Helper()
	_, exit, err = k.readEnd()
	if err != nil {
		return nil, err
	}
	_, err = k.catchUp(t.Context(), true, func(f Frame, err error) bool {
		k.during()
		k.text.Write(f.Data)
		return err == nil
	})
	return exit, err
}

// read expects that a look ends well, having seen so many bytes altogether.
func (k *walk) read(t *testing.T, want int64) {
	t.Helper()
	if exit, err := k.look(t); exit != nil || err != nil || k.next != want || int64(k.text.Len()) != want {
		t.Fatalf("%d bytes to %d, exit %v, error %v; want %d", k.text.Len(), k.next, exit, err, want)
	}
}

// fill writes whole segments of minSegment's length.
func fill(t *testing.T, w *Writer, segments int) {
	t.Helper()
	for range segments {
		write(t, w, 1, strings.Repeat("s", minSegment-header))
	}
}

const filled = minSegment - header

func TestSegmentIsRolledBetweenReadAndLook(t *testing.T) {
	w, dir := create(t, minSegment*8)
	write(t, w, 1, "first")
	k := newWalk(t, dir, 0)
	k.during = func() {
		k.during = func() {}
		write(t, w, 1, "grown") // behind what was read
		fill(t, w, 3)
	}
	k.read(t, 10+3*filled)
	if len(w.starts) < 3 {
		t.Errorf("segments %v", w.starts)
	}
}

// The next segment is made with the first frame that it gets, which may be long after the one before it
// was read to its end.
func TestNextSegmentIsFound(t *testing.T) {
	w, dir := create(t, minSegment*8)
	k := newWalk(t, dir, 0)
	k.read(t, 0)
	for i := range int64(5) {
		fill(t, w, 1)
		k.read(t, (i+1)*filled)
		if k.start != i*filled {
			t.Fatalf("reads the segment at %d", k.start)
		}
		k.read(t, (i+1)*filled)
	}
}

// The segment made for a frame is empty until that is written.
func TestEmptySegment(t *testing.T) {
	w, dir := create(t, minSegment*8)
	fill(t, w, 1)
	must(t, w.roll())
	k := newWalk(t, dir, 0)
	k.read(t, filled)
	k.read(t, filled)
	write(t, w, 1, "more")
	k.read(t, filled+4)
}

func TestReaderKeepsWhatWasTrimmed(t *testing.T) {
	w, dir := create(t, minSegment)
	write(t, w, 1, "first")
	k := newWalk(t, dir, 0)
	k.read(t, 5)
	// All but the newest segment go; the one at hand has more, and is followed by the newest.
	fill(t, w, 1)
	fill(t, w, 1)
	w.dropAllButNewest()
	if _, linked, err := lengthOf(k.file); linked || err != nil {
		t.Fatalf("the segment at hand has its name, %v", err)
	}
	k.read(t, 5+2*filled)
	// Now the one at hand goes and the next one, too.
	write(t, w, 1, "last")
	fill(t, w, 3)
	w.dropAllButNewest()
	for range 2 {
		if _, err := k.look(t); err != ErrTrimmed {
			t.Fatalf("error %v at %d of %v", err, k.next, w.starts)
		}
	}
	if k.file == nil || k.next != 5+2*filled {
		t.Errorf("stands at %d", k.next)
	}
}

// What was not there when it was tried may be there when the segments are listed.
func TestTrimmedMeansGone(t *testing.T) {
	w, dir := create(t, minSegment)
	fill(t, w, 3)
	w.dropAllButNewest()
	k := newWalk(t, dir, 0)
	for at, want := range map[int64]error{0: ErrTrimmed, filled: ErrTrimmed, 2 * filled: nil, 3 * filled: nil} {
		if err := k.trimmed(at); err != want {
			t.Errorf("at %d of %v: %v, want %v", at, w.starts, err, want)
		}
	}
}

func TestEndIsWrittenBetweenTwoLooks(t *testing.T) {
	w, dir := create(t, minSegment)
	write(t, w, 1, "one")
	k := newWalk(t, dir, 0)
	k.read(t, 3)
	k.read(t, 3)
	file := k.exit
	if file == nil {
		t.Fatal("the end was not looked for")
	}
	write(t, w, 1, "two")
	k.during = func() { must(t, w.Finish(wire.Exit{Code: 5})) }
	k.read(t, 6) // the end came too late for this look
	if exit, err := k.look(t); err != nil || exit == nil || exit.Code != 5 || k.exit != file {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

func TestLateEndFile(t *testing.T) {
	w, dir := create(t, minSegment)
	path := filepath.Join(dir, exitFile)
	must(t, os.Rename(path, path+".later"))
	write(t, w, 1, "text")
	k := newWalk(t, dir, 0)
	k.read(t, 4)
	must(t, os.Rename(path+".later", path))
	k.read(t, 4)
	must(t, w.Finish(wire.Exit{Code: 5}))
	if exit, err := k.look(t); err != nil || exit == nil || exit.Code != 5 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

// What a reader keeps open hides from it neither that the spool is gone nor that it is another.
func TestRemovedWhileRead(t *testing.T) {
	for _, text := range []string{"", "text"} {
		w, dir := create(t, minSegment)
		if text != "" {
			write(t, w, 1, text)
		}
		gone, other := newWalk(t, dir, 0), newWalk(t, dir, 0)
		gone.read(t, int64(len(text)))
		other.read(t, int64(len(text)))
		root, err := os.Open(filepath.Dir(dir))
		must(t, err)
		defer root.Close()
		must(t, Remove(int(root.Fd()), "p"))
		if _, err := gone.look(t); err != ErrNone {
			t.Errorf("after %q: %v", text, err)
		}
		again, err := Create(int(root.Fd()), "p", minSegment)
		must(t, err)
		finish(t, again, wire.Exit{Code: 6})
		_, _ = other.look(t)
		if exit, err := other.look(t); err != nil || exit == nil || exit.Code != 6 {
			t.Errorf("after %q, of the next one: exit %+v, error %v", text, exit, err)
		}
	}
}

func TestFollowersLearnOfRemoval(t *testing.T) {
	forEachWay(t, func(t *testing.T) {
		w, dir := create(t, minSegment)
		write(t, w, 1, "text")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var last error
		for f, err := range Read(ctx, dir, 0) {
			if last = err; err == nil && f.Next == 4 {
				must(t, os.RemoveAll(dir))
			}
		}
		if last != ErrNone {
			t.Error(last)
		}
	})
}

// Frames may be kept by who gets them.
func TestFramesStayAsTheyWere(t *testing.T) {
	w, dir := create(t, minSegment)
	var kept []Frame
	for f, err := range Read(t.Context(), dir, writeLetter(t, w, 'a')) {
		must(t, err)
		if kept = append(kept, f); len(kept) == 20 {
			break
		}
		writeLetter(t, w, byte('a'+len(kept)))
	}
	for i, f := range kept {
		if want := strings.Repeat(string(rune('a'+i)), 3000); string(f.Data) != want || cap(f.Data) != len(want) {
			t.Errorf("frame %d: %.10q, cap %d", i, f.Data, cap(f.Data))
		}
	}
}

// writeLetter writes a frame of one letter and returns the oldest offset.
func writeLetter(t *testing.T, w *Writer, letter byte) int64 {
	write(t, w, 1, strings.Repeat(string(rune(letter)), 3000))
	first, _ := w.Range()
	return first
}

func TestNoSegmentIsAFile(t *testing.T) {
	dir, second := ended(t)
	must(t, os.Remove(second))
	must(t, os.Mkdir(second, 0o700))
	if _, _, err := read(t, dir, 0); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a directory for a segment: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, exitFile)))
	must(t, os.Mkdir(filepath.Join(dir, exitFile), 0o700))
	if _, _, err := read(t, dir, 0); err == nil {
		t.Error("a directory for an end")
	}
}

// A look that finds one frame makes little garbage.
func TestLooksAreCheap(t *testing.T) {
	w, dir := create(t, 64<<20)
	k := newWalk(t, dir, 0)
	k.during = func() { k.text.Reset() }
	line := []byte(strings.Repeat("x", 200))
	if n := testing.AllocsPerRun(100, func() {
		must(t, w.Write(1, line))
		_, err := k.look(t)
		must(t, err)
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

// A reader looks for the end and for new segments when there may be some, and not whenever a segment grows.
func TestGrowthAloneIsTold(t *testing.T) {
	w, dir := create(t, minSegment)
	news := watch(dir)
	defer news.Close()
	if news.hub == nil {
		t.Fatal("there is no inotify here")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := func(what string) bool {
		t.Helper()
		select {
		case <-news.news:
		case <-ctx.Done():
			t.Fatalf("nobody told of %s", what)
		}
		return news.Other()
	}
	until := func(what string) {
		t.Helper()
		for !told(what) {
		}
	}
	if !news.Other() {
		t.Error("whoever begins has seen nothing yet")
	}
	write(t, w, 1, "first")
	until("the first segment")
	write(t, w, 1, "more")
	if told("what was written") {
		t.Error("a segment that grew is told as more")
	}
	fill(t, w, 2)
	until("the next segment")
	finish(t, w, wire.Exit{})
	until("the end")
}
