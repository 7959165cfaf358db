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

// tmpPrefix is the prefix of the temporary files of writes (IsUpload). They are not listed, packed or saved. Sweep
// removes them after a crash.
const tmpPrefix = ".berth-tmp-"

const filePerm = 0o644

// Write writes a temporary file in the target's directory and renames it, so that readers see either the old content or
// the new one. Only opening and renaming run as the owner and under the guard, so a slow sender blocks neither a thread
// nor other operations.
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
		// ctx may have ended, and the temporary file must still be removed.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
		defer cancel()
		_ = d.change(last, op, path, w.abandon)
		return Info{}, false, explain(op, path, err)
	}
	return w.info, w.created, nil
}

// abandonTime is the maximum time for the clean-up of a failed write, with the wait for the guard.
const abandonTime = 10 * time.Second

// draft is a write in progress.
type draft struct {
	in   *Dir
	path string
	opts WriteOptions

	dir     int      // the directory of the file
	base    string   // the name of the file in dir
	tmp     string   // the name of the temporary file in dir
	file    *os.File // the temporary file
	made    []string // directories that were created for the file
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

// look checks that the existing file may be replaced, and sets the permissions of the new one.
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
	case st.Mode&unix.S_IFMT == unix.S_IFLNK: // the link is replaced, not its target
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
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) // Sweep keeps locked files
	w.file = os.NewFile(uintptr(fd), w.path)
	return nil
}

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// fill copies until the reader ends and flushes the file to the disk. It returns an error of the reader as a
// SourceError.
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

// sync flushes the content to the disk, unless the write is lazy. It runs before the rename, so that after a power
// failure the name never refers to incomplete content.
func (w *draft) sync() error {
	if w.opts.Lazy {
		return nil
	}
	return unix.Fsync(int(w.file.Fd()))
}

// syncName flushes the directory to the disk after the rename, so that the new name survives a power failure.
func (w *draft) syncName() error {
	if w.opts.Lazy {
		return nil
	}
	fd, err := unix.Openat(w.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES { // the owner may write the directory but not read it
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

// SourceError is an error of reading the new content, not of writing the file.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return fmt.Sprintf("read what to write: %v", e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

// commit sets the permissions and the time of the temporary file and renames it to the target.
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
		return nil // times that the kernel does not support are ignored
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
