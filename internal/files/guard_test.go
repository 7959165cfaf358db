package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/files"
)

var errGuard = errors.New("not now")

// gate is a guard that counts, and can be closed.
type gate struct {
	held, times int
	last        int // it closes after so many times; zero: never
	closed      bool
}

func (g *gate) enter(context.Context) (func(), error) {
	if g.closed || g.last > 0 && g.times >= g.last {
		return nil, errGuard
	}
	g.held++
	g.times++
	return func() { g.held-- }, nil
}

// Everything that changes something is guarded, and nothing else is.
func TestChangesAreGuarded(t *testing.T) {
	w := newWorld(t)
	g := &gate{}
	w.Guard = g.enter
	ctx := t.Context()
	w.put("dir/file", "x")
	changes := map[string]func() error{
		"write":  func() error { return w.write("new/file", "y") },
		"mkdir":  func() error { return w.Mkdir(ctx, "folder") },
		"link":   func() error { return w.Symlink(ctx, "file", "link") },
		"move":   func() error { return w.Rename(ctx, "dir/file", "dir/moved", false) },
		"remove": func() error { return w.Remove(ctx, "dir", true) },
	}
	g.closed = true
	for what, change := range changes {
		if err := change(); !errors.Is(err, errGuard) {
			t.Errorf("%s with a guard that refuses: %v", what, err)
		}
	}
	w.want("dir/file", "x")
	if names := w.names(""); names != "dir" {
		t.Errorf("there are %s", names)
	}
	g.closed = false
	for _, what := range []string{"write", "mkdir", "link", "move", "remove"} {
		before := g.times
		if err := changes[what](); err != nil || g.times == before || g.held != 0 {
			t.Errorf("%s: %v, guarded %d times, held %d times", what, err, g.times-before, g.held)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before := g.times
	if err := w.Mkdir(ended, "late"); !errors.Is(err, context.Canceled) || g.times != before {
		t.Errorf("after the end: %v, guarded %d times", err, g.times-before)
	}
}

// A slow sender holds nothing. When the guard refuses afterwards, what lies there is not touched.
func TestGuardIsNotHeldWhileReading(t *testing.T) {
	w := newWorld(t)
	g := &gate{}
	w.Guard = g.enter
	w.put("file", "old")
	send := func(path string, then func() error) error {
		_, _, err := w.Write(t.Context(), path, readerFunc(func([]byte) (int, error) {
			if g.held != 0 {
				t.Error("the guard is held while a sender is waited for")
			}
			return 0, then()
		}), files.WriteOptions{})
		return err
	}
	if err := send("failed/file", func() error { return errSender }); !errors.Is(err, errSender) || w.names("") != "file" {
		t.Errorf("failed with %v, left %s", err, w.names(""))
	}
	err := send("file", func() error { g.closed = true; return errSender })
	if !errors.Is(err, errSender) {
		t.Errorf("failed with %v", err)
	}
	w.want("file", "old")
	if names := w.names(""); !strings.HasPrefix(names, ".berth-tmp-") || !strings.HasSuffix(names, " file") {
		t.Errorf("there are %s", names)
	}
}

// A folder is removed in turns, so that others get theirs. Each of them may be the last.
func TestRemovalTakesTurns(t *testing.T) {
	t.Cleanup(files.SetWorkTime(0))
	w := newWorld(t)
	g := &gate{}
	w.Guard = g.enter
	const count = 30
	for i := range count {
		w.put(fmt.Sprintf("dir/deep/%d", i), "x")
		w.put(fmt.Sprintf("dir/%d", i), "x")
	}
	g.last = 5
	if err := w.Remove(t.Context(), "dir", true); !errors.Is(err, errGuard) || len(strings.Fields(w.names("dir")))+len(strings.Fields(w.names("dir/deep"))) <= count {
		t.Errorf("%v, left %s and %s", err, w.names("dir"), w.names("dir/deep"))
	}
	g.last = 0
	if err := w.Remove(t.Context(), "dir", true); err != nil || w.names("") != "" {
		t.Errorf("%v, left %q", err, w.names(""))
	}
	if g.times < count || g.held != 0 {
		t.Errorf("removed in %d turns, %d are held", g.times, g.held)
	}
}

// A user's own files may have several names: each is read, packed and, when it is written, parted from the
// others.
func TestOwnHardLinksAreFiles(t *testing.T) {
	for name, as := range map[string]files.Owner{"as ourselves": {}, "as somebody": somebody} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAs(t, as)
			if err := w.write("a", "both"); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(w.at("a"), w.at("b")); err != nil {
				t.Fatal(err)
			}
			w.want("a", "both")
			w.want("b", "both")
			if packed, err := files.Pack(t.Context(), w, new(counter), files.PackOptions{}); err != nil || packed.Entries != 2 || packed.Bytes != 8 || packed.Skipped != 0 {
				t.Errorf("packed %+v, %v", packed, err)
			}
			if err := w.write("b", "its own"); err != nil {
				t.Fatal(err)
			}
			w.want("a", "both")
			w.want("b", "its own")
		})
	}
}
