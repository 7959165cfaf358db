package spool

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Writer writes a spool. It keeps nothing of the output in memory, and is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	root    int // where the spool lies; the caller's
	id      string
	dir     int
	exit    int
	segment int     // the newest, or -1
	size    int64   // of the newest, with headers
	starts  []int64 // of all segments, oldest first
	end     int64
	keep    int64
	ended   bool
	readers map[string]standing // whom a segment is kept for

	// A segment is due to go and a reader needs it.
	waiting atomic.Bool

	// For Range, which must not wait for a disk.
	first, last atomic.Int64
}

// Create makes the spool id in the directory root, which keeps at least the given number of bytes. A full
// disk is ENOSPC or EDQUOT, as it is.
func Create(root int, id string, keep int64) (*Writer, error) {
	err := unix.Mkdirat(root, id, 0o700)
	switch err {
	case nil:
	case unix.EEXIST:
		return nil, ErrExists
	case unix.ENOSPC, unix.EDQUOT:
		return nil, err
	default:
		return nil, os.NewSyscallError("mkdirat", err)
	}
	dir, err := unix.Openat(root, id, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	exit, err := unix.Openat(dir, exitFile, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		unix.Close(dir)
		_ = Remove(root, id)
		if err == unix.ENOSPC || err == unix.EDQUOT {
			return nil, err
		}
		return nil, os.NewSyscallError("openat", err)
	}
	// A file system that cannot do this only loses the end on a full disk.
	err = unix.Fallocate(exit, unix.FALLOC_FL_KEEP_SIZE, 0, maxExit)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		unix.Close(exit)
		unix.Close(dir)
		_ = Remove(root, id)
		return nil, err
	}
	return &Writer{root: root, id: id, dir: dir, exit: exit, segment: -1, keep: keep}, nil
}

// Write appends what a stream brought, at most MaxFrame bytes. On a full disk it gives up older output;
// if that does not help, p is lost and the offset does not move.
func (w *Writer) Write(stream uint8, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(p) == 0 || len(p) > MaxFrame {
		return unix.EINVAL
	}
	w.last.Store(w.end + int64(len(p))) // whoever has read it may come back before we are done
	err := w.append(stream, p)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		w.dropAllButNewest()
		err = w.append(stream, p)
	}
	if err != nil {
		w.last.Store(w.end)
		return os.NewSyscallError("write", err)
	}
	w.end += int64(len(p))
	w.trim()
	return nil
}

func (w *Writer) append(stream uint8, p []byte) error {
	if err := w.roll(); err != nil {
		return err
	}
	frame := [...][]byte{{stream, byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))}, p}
	n, err := writev(w.segment, frame[:])
	if err == nil && n < header+len(p) {
		err = unix.ENOSPC
	}
	if err != nil {
		_ = unix.Ftruncate(w.segment, w.size)
		_, _ = unix.Seek(w.segment, w.size, unix.SEEK_SET)
		return err
	}
	w.size += int64(n)
	return nil
}

func writev(fd int, parts [][]byte) (n int, err error) {
	for {
		n, err = unix.Writev(fd, parts)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// roll opens the next segment when the newest is full. A segment is made for a frame that is about to be
// written, so none is empty for long.
func (w *Writer) roll() error {
	if w.segment >= 0 && w.size < segmentSize(w.keep) {
		return nil
	}
	fd, err := unix.Openat(w.dir, segmentName(w.end), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if w.segment >= 0 {
		unix.Close(w.segment)
	}
	w.segment, w.size = fd, 0
	w.starts = append(w.starts, w.end)
	return nil
}

// trim removes the oldest segments while the rest is enough and no reader needs them.
func (w *Writer) trim() {
	for len(w.starts) > 1 && w.end-w.starts[1] >= w.keep {
		if w.end-w.starts[0] < w.keep+overrun && w.held(w.starts[1]) {
			w.waiting.Store(true)
			return
		}
		w.drop()
	}
	w.waiting.Store(false)
}

// overrun is how much more than it keeps a spool may take for a reader: Held is heeded between two writes, and
// what lies in the pipe of a process that has ended is written all the same.
const overrun = maxSegment + 4<<20

// Held reports whether the next write has to wait for a reader. It is not for the end of a process, whose last
// words must not get lost.
func (w *Writer) Held() bool {
	if !w.waiting.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim()
	return w.waiting.Load()
}

func (w *Writer) dropAllButNewest() {
	for len(w.starts) > 1 {
		w.drop()
	}
}

func (w *Writer) drop() {
	_ = unix.Unlinkat(w.dir, segmentName(w.starts[0]), 0)
	w.starts = append(w.starts[:0], w.starts[1:]...)
	w.first.Store(w.starts[0])
}

// Range is the oldest offset that can be read, and the one behind the newest byte.
func (w *Writer) Range() (first, end int64) { return w.first.Load(), w.last.Load() }

// Finish writes how the process ended: readers see it from here on. The writer takes no more output.
func (w *Writer) Finish(x wire.Exit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return unix.EINVAL
	}
	w.ended = true
	return os.NewSyscallError("write", writeAll(w.exit, encodeEnd(w.end, x)))
}

// Sync brings a finished spool to the disk, with its own name, and closes it.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.exit < 0 {
		return unix.EINVAL
	}
	err := w.syncSegments()
	for _, fd := range []int{w.exit, w.dir} {
		if failed := unix.Fsync(fd); err == nil {
			err = failed
		}
	}
	if failed := w.syncAt(".."); err == nil {
		err = failed
	}
	w.close()
	return os.NewSyscallError("fsync", err)
}

// syncSegments syncs all segments: one that is complete may not have reached the disk by itself.
func (w *Writer) syncSegments() error {
	if w.segment < 0 {
		return nil
	}
	err := unix.Fdatasync(w.segment)
	for _, start := range w.starts[:len(w.starts)-1] {
		if failed := w.syncAt(segmentName(start)); err == nil {
			err = failed
		}
	}
	return err
}

// syncAt syncs a file beside the spool's others, or the directory above.
func (w *Writer) syncAt(name string) error {
	fd, err := unix.Openat(w.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

func (w *Writer) close() {
	if w.segment >= 0 {
		unix.Close(w.segment)
	}
	unix.Close(w.exit)
	unix.Close(w.dir)
	w.segment, w.exit, w.dir = -1, -1, -1
}
