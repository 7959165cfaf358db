package local

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ErrPowerOff is the answer of a disk whose machine has no power any more.
var ErrPowerOff = errors.New("the power is off")

// PowerDisk is a disk that loses what was not synced when its power is cut. It works on a real directory and
// keeps a model beside it: the names and bytes there are now, and those that were synced.
type PowerDisk struct {
	dir string
	top *node

	mu  sync.Mutex
	ops int
	cut int // the power goes after so many operations; negative: never
}

// node is a directory or a file of the model.
type node struct {
	path      string           // where it is really
	now, kept map[string]*node // a directory's names; nil for a file

	text, safe []byte
	synced     bool
	image      bool // a file system that the instance writes to; its content is taken from the real file
}

func newDirNode(path string) *node {
	return &node{path: path, now: map[string]*node{}, kept: map[string]*node{}}
}

// NewPowerDisk is such a disk, for a driver whose directory is dir.
func NewPowerDisk(dir string, cut int) *PowerDisk {
	w := &PowerDisk{dir: dir, top: newDirNode(dir), cut: cut}
	for _, sub := range []string{newDir, trashDir, disksDir} { // the driver makes them whenever it starts
		w.top.now[sub] = newDirNode(filepath.Join(dir, sub))
	}
	w.top.kept = maps.Clone(w.top.now)
	return w
}

// NewOn opens a driver on such a disk.
func NewOn(ctx context.Context, opts Options, w *PowerDisk) (*Driver, error) { return newOn(opts, w) }

// Off tells whether the power was cut.
func (w *PowerDisk) Off() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut >= 0 && w.ops > w.cut
}

// find finds a path in the model: its parent, its name, and its node, if there is one.
func (w *PowerDisk) find(path string) (parent *node, name string, n *node) {
	rel, err := filepath.Rel(w.dir, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return nil, "", nil
	}
	n = w.top
	if rel == "." {
		return nil, "", n
	}
	for part := range strings.SplitSeq(rel, "/") {
		if n == nil {
			return nil, "", nil
		}
		parent, name, n = n, part, n.now[part]
	}
	return parent, name, n
}

func (w *PowerDisk) change(real func() error, model func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ops++; w.cut >= 0 && w.ops > w.cut {
		return ErrPowerOff
	}
	if err := real(); err != nil {
		return err
	}
	model()
	return nil
}

func (w *PowerDisk) mkdir(path string, perm os.FileMode) error {
	return w.change(func() error { return machine{}.mkdir(path, perm) }, func() {
		parent, name, _ := w.find(path)
		parent.now[name] = newDirNode(path)
	})
}

func (w *PowerDisk) write(path string, data []byte) error {
	return w.change(func() error { return machine{}.write(path, data) }, func() {
		parent, name, n := w.find(path)
		if n == nil {
			n = &node{path: path}
			parent.now[name] = n
		}
		n.text, n.synced = slices.Clone(data), false
	})
}

func (w *PowerDisk) rename(from, to string, flags uint) error {
	return w.change(func() error { return machine{}.rename(from, to, flags) }, func() {
		old, oldName, n := w.find(from)
		parent, name, _ := w.find(to)
		if n == nil || parent == nil {
			return
		}
		delete(old.now, oldName)
		parent.now[name] = n
		n.moved(to)
	})
}

func (n *node) moved(to string) {
	n.path = to
	for name, sub := range n.now {
		sub.moved(filepath.Join(to, name))
	}
}

func (w *PowerDisk) remove(path string) error {
	return w.change(func() error { return machine{}.remove(path) }, func() {
		if parent, name, n := w.find(path); n != nil {
			delete(parent.now, name)
		}
	})
}

func (w *PowerDisk) sync(path string) error {
	return w.change(func() error { return machine{}.sync(path) }, func() {
		_, _, n := w.find(path)
		switch {
		case n == nil:
		case n.now != nil:
			n.kept = maps.Clone(n.now)
		default:
			n.safe, n.synced = n.text, true
		}
	})
}

// copySparse makes an image: it is synced, and what is written into it later is the kernel's to sync.
func (w *PowerDisk) copySparse(from, to string) error {
	return w.change(func() error { return machine{}.copySparse(from, to) }, func() {
		if parent, name, _ := w.find(to); parent != nil {
			parent.now[name] = &node{path: to, image: true}
		}
	})
}

// Survival decides what a power loss leaves of what was not synced.
type Survival struct {
	Names func() bool                      // whether a changed name has changed on the disk
	Bytes func(text []byte) []byte         // what is left of a file's bytes
	Spool func(path string, d fs.DirEntry) // what becomes of a file that the helper wrote
}

// Survivals are the ways a file system may behave.
func Survivals(rng *rand.Rand) map[string]Survival {
	empty := func([]byte) []byte { return nil }
	cutFile := func(path string, d fs.DirEntry) {
		if d.Type().IsRegular() {
			_ = os.Truncate(path, 0)
		}
	}
	return map[string]Survival{
		"names without bytes": {func() bool { return true }, empty, cutFile},
		"nothing":             {func() bool { return false }, empty, cutFile},
		"anything": {
			func() bool { return rng.IntN(2) == 0 },
			func(text []byte) []byte {
				return [][]byte{nil, text[:rng.IntN(len(text)+1)], make([]byte, len(text))}[rng.IntN(3)]
			},
			func(path string, d fs.DirEntry) {
				if d.Type().IsRegular() && rng.IntN(2) == 0 {
					_ = os.WriteFile(path, make([]byte, rng.IntN(64)), 0o600)
				}
			},
		},
	}
}

// Crash writes to another directory what a power loss leaves.
func (w *PowerDisk) Crash(t *testing.T, s Survival, to string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.top.leave(t, s, to)
}

func (n *node) leave(t *testing.T, s Survival, dir string) {
	t.Helper()
	names := maps.Clone(n.kept)
	maps.Copy(names, n.now)
	for name := range names {
		left := n.now[name]
		if n.kept[name] != left && !s.Names() {
			left = n.kept[name]
		}
		if left != nil {
			left.put(t, s, filepath.Join(dir, name))
		}
	}
}

func (n *node) put(t *testing.T, s Survival, path string) {
	t.Helper()
	switch {
	case n.image:
		if err := copySparse(n.path, path); !errors.Is(err, fs.ErrNotExist) { // one that was not used is gone
			check(t, err)
		}
	case n.now == nil && n.synced:
		check(t, os.WriteFile(path, n.safe, 0o600))
	case n.now == nil:
		check(t, os.WriteFile(path, s.Bytes(n.text), 0o600))
	case filepath.Base(path) == "upper" || filepath.Base(path) == spoolDir: // what others write there is theirs to sync
		if exec.Command("cp", "-a", n.path, path).Run() != nil {
			check(t, os.Mkdir(path, 0o755))
		}
		if filepath.Base(path) == spoolDir {
			check(t, filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
				s.Spool(path, d)
				return err
			}))
		}
	default:
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		n.leave(t, s, path)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
