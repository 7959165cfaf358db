package workspace_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/workspace"
)

// pushWindows are where a push can be killed by name, in their order; those from "head moved" on have
// committed.
var pushWindows = []string{
	"scanning", "reading", "data half sent", "data stored", "manifest asked", "manifest stored", "head asked",
	"head moved", "pushed", "index saved", "state written",
}

// committed reports whether a push that dies in a window has made its version.
func committed(window string) bool {
	for _, w := range pushWindows {
		if w == "head moved" {
			return true
		}
		if w == window {
			return false
		}
	}
	return false
}

// doomed is a process that is killed when it comes to a window.
type doomed struct {
	window string
	runs   atomic.Int64
	once   sync.Once
	moved  chan struct{}
}

func (d *doomed) at(window string) {
	if d.window == window {
		die(window)
	}
}

// headMoved is closed when HEAD has.
func (d *doomed) headMoved() chan struct{} {
	d.once.Do(func() { d.moved = make(chan struct{}) })
	return d.moved
}

// doomedTree dies while it is looked at, or read.
type doomedTree struct {
	workspace.Tree
	d *doomed
}

func (t *doomedTree) Run(do func(root int) error) error {
	n, workers := t.d.runs.Add(1), int64(min(max(runtime.GOMAXPROCS(0), 2), 8))
	switch n {
	case 2: // the first is at it
		t.d.at("scanning")
	case workers + 1:
		t.d.at("reading")
	}
	return t.Tree.Run(do)
}

// doomedStore dies before, in or after a write.
type doomedStore struct {
	blob.Store
	d *doomed
}

// patience is how long data waits for a HEAD that must not overtake it.
const patience = 50 * time.Millisecond

func (s *doomedStore) Put(ctx context.Context, key string, from io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	switch {
	case strings.HasSuffix(key, "HEAD"):
		s.d.at("head asked")
		tag, err := s.Store.Put(ctx, key, from, size, o)
		if err == nil {
			close(s.d.headMoved())
			s.d.at("head moved")
		}
		return tag, err
	case strings.Contains(key, workspace.StateFile):
		s.d.at("manifest asked")
		tag, err := s.Store.Put(ctx, key, from, size, o)
		if err == nil {
			s.d.at("manifest stored")
		}
		return tag, err
	}
	if s.d.window == "data half sent" {
		from = &halfway{from, size / 2}
	}
	s.d.dawdle()
	tag, err := s.Store.Put(ctx, key, from, size, o)
	if err == nil {
		s.d.at("data stored")
	}
	return tag, err
}

// dawdle gives a HEAD that does not wait for the data the time to overtake it.
func (d *doomed) dawdle() {
	if committed(d.window) {
		select {
		case <-d.headMoved():
		case <-time.After(patience):
		}
	}
}

func (s *doomedStore) CheckedMost() int64 {
	if c, ok := s.Store.(blob.Checked); ok {
		return c.CheckedMost()
	}
	return 0
}

func (s *doomedStore) PutChecked(ctx context.Context, key string, from io.ReaderAt, size int64, sums blob.Sums) error {
	s.d.dawdle()
	if s.d.window == "data half sent" {
		from = halfwayAt{from, size / 2}
	}
	err := s.Store.(blob.Checked).PutChecked(ctx, key, from, size, sums)
	if err == nil {
		s.d.at("data stored")
	}
	return err
}

// halfwayAt is halfway for a file.
type halfwayAt struct {
	io.ReaderAt
	half int64
}

func (h halfwayAt) ReadAt(p []byte, from int64) (int, error) {
	if from >= h.half {
		die("data half sent")
	}
	return h.ReaderAt.ReadAt(p, from)
}

// halfway dies in the middle of what is read from it.
type halfway struct {
	from io.Reader
	left int64
}

func (h *halfway) Read(p []byte) (int, error) {
	if h.left <= 0 {
		die("data half sent")
	}
	n, err := h.from.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}
