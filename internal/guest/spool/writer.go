package spool

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// Writer writes a spool. It holds no output in memory. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	root    int // the descriptor of the parent directory; owned by the caller
	id      string
	dir     int     // the descriptor of the spool's directory
	exit    int     // the descriptor of the exit file
	segment int     // the descriptor of the newest segment, or -1
	size    int64   // the size of the newest segment with headers
	starts  []int64 // the start offsets of all segments, oldest first
	end     int64   // the offset after the newest byte
	keep    int64   // the minimum bytes of output to keep
	ended   bool
	readers map[string]standing // the readers that a segment is kept for, by the names of their marks

	// waiting is set while a reader needs a segment that would otherwise be removed.
	waiting atomic.Bool

	// first and last are the results of Range, which must not wait for the disk.
	first, last atomic.Int64
}

// Create makes the spool id in the directory root. The spool keeps at least keep bytes of output. On a full disk
// Create returns ENOSPC or EDQUOT without wrapping it.
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
	// Reserve the space. Other errors are ignored: without a reservation only a full disk loses the exit.
	err = unix.Fallocate(exit, unix.FALLOC_FL_KEEP_SIZE, 0, maxExit)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		unix.Close(exit)
		unix.Close(dir)
		_ = Remove(root, id)
		return nil, err
	}
	return &Writer{root: root, id: id, dir: dir, exit: exit, segment: -1, keep: keep}, nil
}

// Write appends output of a stream, at most MaxFrame bytes. On a full disk it removes older output and tries again.
// If that fails too, p is lost and the offset does not change.
func (w *Writer) Write(stream uint8, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(p) == 0 || len(p) > MaxFrame {
		return unix.EINVAL
	}
	w.last.Store(w.end + int64(len(p))) // before the write: a reader may read p and call Range before Write returns
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

// roll opens the next segment if the newest one is full. It is called right before a frame is written, so a segment is
// empty only for a moment.
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

// trim removes the oldest segments while the others hold at least keep bytes and no reader needs the oldest.
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

// overrun is the number of bytes by which a spool may exceed keep for a reader. It cannot be zero: callers check Held
// only between two writes, and the output left in the pipe of an ended process is written without a check.
const overrun = maxSegment + 4<<20

// Held reports whether the next write has to wait for a reader. Callers do not check it for the last output of a
// process that has ended: this output must not be lost.
func (w *Writer) Held() bool {
	if !w.waiting.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim()
	return w.waiting.Load()
}

// Shrink limits the spool to keep bytes from now on, even if readers need older output.
func (w *Writer) Shrink(keep int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep = min(w.keep, keep)
	for len(w.starts) > 1 && w.end-w.starts[0] > w.keep {
		w.drop()
	}
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

// Range returns the oldest offset that can be read and the offset after the newest byte.
func (w *Writer) Range() (first, end int64) { return w.first.Load(), w.last.Load() }

// Finish writes the exit of the process, which readers see from then on. Later writes fail.
func (w *Writer) Finish(x wire.Exit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return unix.EINVAL
	}
	w.ended = true
	return os.NewSyscallError("write", writeAll(w.exit, encodeEnd(w.end, x)))
}

// Sync flushes a finished spool and its directory entry to the disk, and closes the writer.
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

// syncSegments flushes all segments to the disk. The kernel may not have written the complete ones yet either.
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

// syncAt flushes a file of the spool to the disk, or with ".." the parent directory.
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
