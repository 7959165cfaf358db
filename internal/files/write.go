package files

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tmpPrefix begins the names of files that are being written (IsUpload). They are not listed, packed or saved.
// What a crash leaves of them is removed by Sweep.
const tmpPrefix = ".berth-tmp-"

const filePerm = 0o644

// Write writes to a file of another name beside the one asked for and then puts it in its place, so that
// readers see the old content or the new. Only opening and moving happen as the owner and under the guard;
// the reading that may wait for a slow sender keeps neither a thread nor anybody else.
func (d *Dir) Write(ctx context.Context, path string, from io.Reader, opts WriteOptions) (info Info, created bool, err error) {
	const op = "write file"
	w := &draft{in: d, path: path, opts: opts}
	if err := d.change(ctx, op, path, w.begin); err != nil {
		return Info{}, false, err
	}
	defer w.close()
	if err = w.fill(ctx, from); err == nil {
		err = d.change(ctx, op, path, w.commit)
	}
	if err == nil {
		err = w.syncName()
	}
	if err != nil {
		// Not with ctx: it may be over, and what was begun must go all the same.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
		defer cancel()
		_ = d.change(last, op, path, w.abandon)
		return Info{}, false, explain(op, path, err)
	}
	return w.info, w.created, nil
}

// abandonTime is how long a failed write waits for the guard.
const abandonTime = 10 * time.Second

// draft is a file that is being written.
type draft struct {
	in   *Dir
	path string
	opts WriteOptions

	dir     int // where it lies
	base    string
	tmp     string
	file    *os.File
	made    []string // directories made for it
	created bool
	info    Info
}

func (w *draft) begin(root int) (err error) {
	defer func() {
		if err != nil {
			unmakeDirs(root, w.made)
		}
	}()
	if w.made, err = makeDirs(root, parentOf(w.path)); err != nil {
		return err
	}
	if w.dir, w.base, err = openParent(root, w.path); err != nil {
		return err
	}
	if err = w.look(); err == nil {
		err = w.create()
	}
	if err != nil {
		_ = unix.Close(w.dir)
	}
	return err
}

// look finds out what is there already.
func (w *draft) look() error {
	var st unix.Stat_t
	err := unix.Fstatat(w.dir, w.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		w.created = true
		w.perm(filePerm)
		return nil
	case err != nil:
		return err
	case w.opts.New:
		return unix.EEXIST
	case st.Mode&unix.S_IFMT == unix.S_IFLNK: // the link is replaced, not what it leads to
		w.perm(filePerm)
		return nil
	}
	w.perm(modeOf(st.Mode).Perm())
	return w.in.openable("write file", w.path, &st)
}

func (w *draft) perm(otherwise fs.FileMode) {
	if w.opts.Perm = w.opts.Perm.Perm(); w.opts.Perm == 0 {
		w.opts.Perm = otherwise
	}
}

func (w *draft) create() error {
	w.tmp = tmpPrefix + strings.ToLower(rand.Text())
	fd, err := unix.Openat(w.dir, w.tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) // so that Sweep sees that it is being written
	w.file = os.NewFile(uintptr(fd), w.path)
	return nil
}

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// fill copies until the reader ends, and waits for the disk. An error of the reader comes back as it is.
func (w *draft) fill(ctx context.Context, from io.Reader) error {
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.Read(buf[:])
		if n > 0 {
			if _, err := w.file.Write(buf[:n]); err != nil {
				return explain("write file", w.path, err)
			}
		}
		switch {
		case err == io.EOF:
			return w.sync()
		case err != nil:
			return &SourceError{err}
		}
	}
}

// sync comes before the file is put in its place: what is done to a file and its name later reaches the
// disk in this order, or not at all.
func (w *draft) sync() error {
	if w.opts.Lazy {
		return nil
	}
	return unix.Fsync(int(w.file.Fd()))
}

// syncName makes the file's new name outlive a power loss.
func (w *draft) syncName() error {
	if w.opts.Lazy {
		return nil
	}
	fd, err := unix.Openat(w.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES { // a directory that may be written but not read
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

// SourceError is an error of the reader that a file was written from, not of the file.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return fmt.Sprintf("read what to write: %v", e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// commit puts the file in its place.
func (w *draft) commit(int) error {
	fd := int(w.file.Fd())
	if err := unix.Fchmod(fd, uint32(w.opts.Perm)); err != nil {
		return err
	}
	if err := w.setTime(fd); err != nil {
		return err
	}
	var flags uint
	if w.opts.New {
		flags = unix.RENAME_NOREPLACE
	}
	if err := unix.Renameat2(w.dir, w.tmp, w.dir, w.base, flags); err != nil {
		return err
	}
	info, err := describe(fd, w.path)
	w.info = info
	return err
}

func (w *draft) setTime(fd int) error {
	if w.opts.ModTime.IsZero() {
		return nil
	}
	now, err := unix.TimeToTimespec(time.Now())
	if err != nil {
		return err
	}
	then, err := unix.TimeToTimespec(w.opts.ModTime)
	if err != nil {
		return nil // a time that the kernel does not have is not worth failing for
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procFD(fd), []unix.Timespec{now, then}, 0)
}

func (w *draft) abandon(root int) error {
	_ = unix.Unlinkat(w.dir, w.tmp, 0)
	unmakeDirs(root, w.made)
	return nil
}

func (w *draft) close() {
	_ = w.file.Close()
	_ = unix.Close(w.dir)
}
