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

// A reader of Follow has a file in a directory beside the spools. The name of the file is the spool's id and a number.
// The file holds the offset of the next byte that the reader needs, and the reader's patience. The reader holds an
// exclusive lock on the file. The lock ends with the reader's process, so a server that died does not keep a writer
// waiting. The writer reads these files only before it removes a segment.
const (
	readersDir = ".readers"
	markSize   = 16
	// markStep is the number of bytes after which a reader writes its offset to its file. It also writes it
	// before it waits.
	markStep = minSegment
)

// Patience is the default of the longest time that a writer waits for a reader without progress.
const Patience = 30 * time.Second

// mostPatience is the maximum of a reader's patience.
const mostPatience = time.Hour

// Follow is Read for the spool id in the directory root. The writer keeps the output that Follow has not yielded yet,
// and the process has to wait, unless the reader makes no progress for longer than its patience; zero means Patience.
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

// mark is the file of a reader. The methods of a nil mark do nothing.
type mark struct {
	fd   int
	path string
	at   int64
}

var marks atomic.Int64

// newMark makes the file of a reader. It returns nil if that fails; the writer then does not wait for the reader.
func newMark(root, id string, at int64, patience time.Duration) *mark {
	dir := root + "/" + readersDir
	for range 100 {
		// An earlier process with the same process id may have left a file of this name.
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

// move writes the reader's offset to the file if it is at least step bytes after the last one written.
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

// expected holds the marks of readers that Expect announced and that have not started yet, by directory and id.
var expected = struct {
	sync.Mutex
	marks map[string]*expectation
}{marks: map[string]*expectation{}}

// expectation is the announcement of one reader.
type expectation struct {
	mark *mark
	over *time.Timer // withdraws the announcement after expectTime
}

// expectTime is the longest time between Expect and the start of the reader.
const expectTime = 10 * time.Second

// Expect announces a Follow from the start of a spool, before the spool is made. The writer keeps all output until the
// reader starts. The next Follow of the spool in this process is the announced reader. forget withdraws the
// announcement.
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

// takeExpected removes the expectation of key and reports whether there was one. If e is not nil, it removes only e.
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

// announce makes the reader's mark, or takes the one that Expect made for it.
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

// standing is the progress of a reader that the writer waits for.
type standing struct {
	at    int64     // the reader's offset
	since time.Time // when the writer first saw this offset
	over  bool      // the reader exceeded its patience; the writer does not wait for it again
}

// held reports whether the writer has to wait for a reader that still needs output before the offset line.
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

// waits reports whether the writer has to wait for the reader with this mark.
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

// readMark reads the file of a reader. alive is false if the file is not locked: its process has ended.
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

// sweepReaders removes the files of readers whose process has ended.
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

// isSpool reports whether a directory entry is a spool. The directory of readers is not one.
func isSpool(e os.DirEntry) bool { return e.IsDir() && wire.ValidID(e.Name()) }
