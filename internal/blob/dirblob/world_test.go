package dirblob

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// world is a disk that forgets what was not synced, and fails when it is told to. It works on a real
// directory and keeps a record beside it: what is there now, and what would be there after a power loss.
type world struct {
	mu   sync.Mutex
	ops  int
	fail func(n int, op string) error // before the nth operation that changes something
	root *node
}

// node is a folder or a file.
type node struct {
	now, kept map[string]*node // a folder's names; nil for a file

	text, safe string // a file's bytes
	synced     bool
	at         time.Time
}

func newFolderNode() *node { return &node{now: map[string]*node{}, kept: map[string]*node{}} }

// newWorld is a store on such a disk.
func newWorld(t *testing.T) (*world, folder) {
	t.Helper()
	dir := t.TempDir()
	real, err := openDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: newFolderNode(), fail: func(int, string) error { return nil }}
	return w, &worldFolder{real, w, w.root}
}

func (w *world) open(t *testing.T, root folder) (*Store, error) {
	s, err := openAt(t.Context(), "/world", root)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// change does something that changes the disk, in the real directory and in the record.
func (w *world) change(op string, real func() error, record func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops++
	if err := w.fail(w.ops, op); err != nil {
		return err
	}
	if err := real(); err != nil {
		return err
	}
	record()
	return nil
}

type worldFolder struct {
	folder
	w *world
	n *node
}

func (f *worldFolder) sub(path string) (folder, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	real, err := f.folder.sub(path)
	if err != nil {
		return nil, err
	}
	n := f.n
	for name := range strings.SplitSeq(path, "/") {
		if name != "." {
			n = n.now[name]
		}
	}
	return &worldFolder{real, f.w, n}, nil
}

func (f *worldFolder) mkdir(name string) error {
	return f.w.change("mkdir", func() error { return f.folder.mkdir(name) }, func() { f.n.now[name] = newFolderNode() })
}

func (f *worldFolder) rmdir(name string) error {
	return f.w.change("rmdir", func() error { return f.folder.rmdir(name) }, func() { delete(f.n.now, name) })
}

func (f *worldFolder) create(name string) (output, error) {
	n := &node{}
	var real output
	err := f.w.change("create", func() (err error) {
		real, err = f.folder.create(name)
		return err
	}, func() { f.n.now[name] = n })
	if err != nil {
		return nil, err
	}
	return &worldFile{real, f.w, n}, nil
}

func (f *worldFolder) link(name string, to folder, as string) error {
	other := to.(interface{ under() *worldFolder }).under()
	return f.w.change("link", func() error { return f.folder.link(name, to, as) }, func() { other.n.now[as] = f.n.now[name] })
}

func (f *worldFolder) rename(name string, to folder, as string) error {
	other := to.(interface{ under() *worldFolder }).under()
	return f.w.change("rename", func() error { return f.folder.rename(name, to, as) }, func() {
		if other.n.now[as] == f.n.now[name] {
			return // as the kernel: both names of a file stay
		}
		other.n.now[as] = f.n.now[name]
		delete(f.n.now, name)
	})
}

func (f *worldFolder) unlink(name string) error {
	return f.w.change("unlink", func() error { return f.folder.unlink(name) }, func() { delete(f.n.now, name) })
}

func (f *worldFolder) sync() error {
	return f.w.change("sync folder", func() error { return nil }, func() { f.n.kept = maps.Clone(f.n.now) })
}

func (f *worldFolder) under() *worldFolder { return f }

func (s *dirHandle) under() *worldFolder { return s.folder.(*worldFolder) }

type worldFile struct {
	output
	w *world
	n *node
}

// Write takes half of what does not fit.
func (f *worldFile) Write(p []byte) (n int, err error) {
	err = f.w.change("write", func() (err error) {
		n, err = f.output.Write(p)
		return err
	}, func() { f.n.text, f.n.synced = f.n.text+string(p), false })
	if errors.Is(err, unix.ENOSPC) {
		n, _ = f.output.Write(p[:len(p)/2])
	}
	return n, err
}

func (f *worldFile) stamp(at time.Time) error {
	return f.w.change("stamp", func() error { return f.output.stamp(at) }, func() { f.n.at = at })
}

func (f *worldFile) sync() error {
	return f.w.change("sync file", func() error { return nil }, func() { f.n.safe, f.n.synced = f.n.text, true })
}

// crash writes to dir what a power loss may leave: of each name that was not synced either what it was or
// what it is, of bytes that were not synced anything.
func (w *world) crash(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.root.leave(t, rng, dir)
}

func (n *node) leave(t *testing.T, rng *rand.Rand, dir string) {
	names := maps.Clone(n.kept)
	maps.Copy(names, n.now)
	for name := range names {
		left := n.now[name]
		if n.kept[name] != left && rng.IntN(2) == 0 {
			left = n.kept[name]
		}
		path := filepath.Join(dir, name)
		var err error
		switch {
		case left == nil:
		case left.now != nil:
			err = os.Mkdir(path, 0o700)
			left.leave(t, rng, path)
		default:
			err = os.WriteFile(path, left.torn(rng), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) torn(rng *rand.Rand) []byte {
	if n.synced {
		return []byte(n.safe)
	}
	switch text := []byte(n.text); rng.IntN(3) {
	case 0:
		return nil
	case 1:
		return text[:rng.IntN(len(text)+1)]
	default:
		return make([]byte, len(text))
	}
}
