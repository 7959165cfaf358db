package spool

import (
	"context"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// A reader that follows a spool has a file in a directory beside the spools, named by the spool's id and a
// number. The file holds the offset of the next byte that the reader wants, and how long it may stand still.
// The reader holds an exclusive lock on it, which ends with the reader's process: a dead server holds nothing
// back. The writer looks there only when it is about to remove a segment.
const (
	readersDir = ".readers"
	markSize   = 16
	// markStep is how far a reader goes before it says so, unless it waits.
	markStep = minSegment
)

// Patience is how long a writer waits for a reader that does not go on.
const Patience = 30 * time.Second

// mostPatience bounds what a reader may ask for.
const mostPatience = time.Hour

// Follow is Read for a spool by its id in a directory. While it reads, the writer keeps what it has not yielded
// yet, and the process waits, as long as the reader goes on within its patience; zero is Patience.
func Follow(ctx context.Context, root, id string, after int64, patience time.Duration) iter.Seq2[Frame, error] {
	if patience <= 0 {
		patience = Patience
	}
	return func(yield func(Frame, error) bool) {
		r := reader{dir: root + "/" + id, next: after, root: root, id: id, patience: patience}
		defer r.close()
		if err := r.read(ctx, yield); err != nil {
			yield(Frame{}, err)
		}
	}
}

// mark is the file of a reader. A nil one does nothing.
type mark struct {
	fd   int
	path string
	at   int64
}

var marks atomic.Int64

// newMark makes the file of a reader. Without one, for whatever reason, the reader is not waited for.
func newMark(root, id string, at int64, patience time.Duration) *mark {
	dir := root + "/" + readersDir
	for range 100 {
		// Another process of the same number may have left a file of this name.
		path := dir + "/" + id + "." + segmentName(int64(os.Getpid())<<32|marks.Add(1)&0xffffffff)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		switch err {
		case nil:
			m := &mark{fd: fd, path: path}
			if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil || !m.write(at, patience) {
				m.close()
				return nil
			}
			return m
		case unix.EEXIST:
		case unix.ENOENT:
			if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
				return nil
			}
		default:
			return nil
		}
	}
	return nil
}

func (m *mark) write(at int64, patience time.Duration) bool {
	b := appendInt(appendInt(make([]byte, 0, markSize), at), int64(patience))
	n, err := syscall.Pwrite(m.fd, b, 0)
	m.at = at
	return n == len(b) && err == nil
}

// move says how far the reader is, if that is far enough from where it last said.
func (m *mark) move(at, step int64) {
	if m == nil || at-m.at < step {
		return
	}
	m.at = at
	_, _ = syscall.Pwrite(m.fd, appendInt(make([]byte, 0, 8), at), 0)
}

func (m *mark) close() {
	if m == nil {
		return
	}
	_ = os.Remove(m.path)
	_ = unix.Close(m.fd)
}

func appendInt(b []byte, n int64) []byte {
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift))
	}
	return b
}

func readInt(b []byte) (n int64) {
	for _, c := range b[:8] {
		n = n<<8 | int64(c)
	}
	return n
}

// expected are the readers that were announced and have not come yet.
var expected = struct {
	sync.Mutex
	marks map[string]*expectation
}{marks: map[string]*expectation{}}

type expectation struct {
	mark *mark
	over *time.Timer
}

// expectTime is how long an announced reader may take to come.
const expectTime = 10 * time.Second

// Expect announces a reader that follows a spool from its beginning, before the spool is made: what is written
// until it comes is kept for it. The next Follow of the spool in this process is that reader. Calling forget
// says that it will not come.
func Expect(root, id string, patience time.Duration) (forget func()) {
	if patience <= 0 {
		patience = Patience
	}
	key := root + "/" + id
	e := &expectation{mark: newMark(root, id, 0, patience)}
	drop := func() {
		if takeExpected(key, e) {
			e.mark.close()
		}
	}
	expected.Lock()
	defer expected.Unlock()
	if was := expected.marks[key]; was != nil {
		was.over.Stop()
		was.mark.close()
	}
	e.over = time.AfterFunc(expectTime, drop)
	expected.marks[key] = e
	return drop
}

// takeExpected reports whether the expectation is still there, and takes it. Nil stands for any.
func takeExpected(key string, e *expectation) bool {
	expected.Lock()
	defer expected.Unlock()
	was := expected.marks[key]
	if was == nil || e != nil && e != was {
		return false
	}
	was.over.Stop()
	delete(expected.marks, key)
	return true
}

// announce makes the reader's file, or takes over the one that was made for it.
func (r *reader) announce() {
	key := r.root + "/" + r.id
	expected.Lock()
	e := expected.marks[key]
	expected.Unlock()
	if e != nil && takeExpected(key, e) {
		r.mark = e.mark
	}
	if r.mark == nil {
		r.mark = newMark(r.root, r.id, max(r.next, 0), r.patience)
	}
}

// standing is a reader that the writer waits for.
type standing struct {
	at    int64
	since time.Time
	over  bool // it stood still for too long, and is not waited for again
}

// held reports whether a reader that goes on needs what lies before an offset.
func (w *Writer) held(line int64) bool {
	dir, err := unix.Openat(w.root, readersDir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(dir), readersDir)
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	held := false
	for _, name := range names {
		if len(name) > len(w.id) && name[:len(w.id)+1] == w.id+"." && w.waits(dir, name, line) {
			held = true
		}
	}
	return held
}

// waits reports whether one reader is to be waited for.
func (w *Writer) waits(dir int, name string, line int64) bool {
	at, patience, alive := readMark(dir, name)
	if !alive || at >= line {
		delete(w.readers, name)
		return false
	}
	now := time.Now()
	s, known := w.readers[name]
	switch {
	case !known || s.at != at && !s.over:
		if w.readers == nil {
			w.readers = map[string]standing{}
		}
		w.readers[name] = standing{at: at, since: now}
		return true
	case s.over:
		return false
	case now.Sub(s.since) < patience:
		return true
	}
	s.over = true
	w.readers[name] = s
	return false
}

// readMark reads the file of a reader. One that is not locked belongs to a process that is gone.
func readMark(dir int, name string) (at int64, patience time.Duration, alive bool) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, false
	}
	defer unix.Close(fd)
	if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) != syscall.EWOULDBLOCK {
		return 0, 0, false
	}
	var b [markSize]byte
	if n, err := syscall.Pread(fd, b[:], 0); n != len(b) || err != nil {
		return 0, 0, false
	}
	return readInt(b[:]), min(time.Duration(readInt(b[8:])), mostPatience), true
}

// sweepReaders removes the files that readers of processes left which are gone.
func sweepReaders(root string) {
	entries, _ := os.ReadDir(root + "/" + readersDir)
	for _, e := range entries {
		path := root + "/" + readersDir + "/" + e.Name()
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB) == nil {
			_ = os.Remove(path)
		}
		_ = unix.Close(fd)
	}
}

// isSpool tells a spool from the directory of readers.
func isSpool(e os.DirEntry) bool { return e.IsDir() && wire.ValidID(e.Name()) }
