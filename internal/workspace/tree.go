package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Tree is a directory that is saved and restored. Its entries are opened relative to its descriptor, and symbolic
// links are not followed.
type Tree interface {
	// Run calls do with the descriptor of the directory, on a thread with the user id of the files' owner. Calls
	// may be concurrent.
	Run(do func(root int) error) error
}

// Dir is a Tree for a directory of this machine. It accesses the files as the user of this process.
type Dir struct{ f *os.File }

// OpenDir opens a directory as a Tree.
func OpenDir(path string) (*Dir, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{f}, nil
}

// Run implements Tree.
func (d *Dir) Run(do func(root int) error) error {
	defer runtime.KeepAlive(d) // without other references to d, a finalizer could close the directory during do
	return do(int(d.f.Fd()))
}

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// maxStep is the maximum length of a path that is passed to the kernel in one call.
const maxStep = 4000

// openAt opens a path below root. An empty path opens the root.
func openAt(root int, path string, flags int, perm uint64) (int, error) {
	dir := root
	for len(path) > maxStep {
		cut := strings.LastIndexByte(path[:maxStep], '/')
		if cut <= 0 {
			closeOther(dir, root)
			return -1, unix.ENAMETOOLONG
		}
		next, err := openStep(dir, path[:cut], unix.O_PATH|unix.O_DIRECTORY, 0)
		closeOther(dir, root)
		if err != nil {
			return -1, err
		}
		dir, path = next, path[cut+1:]
	}
	defer closeOther(dir, root)
	if path == "" {
		path = "."
	}
	return openStep(dir, path, flags, perm)
}

func closeOther(fd, keep int) {
	if fd != keep {
		_ = unix.Close(fd)
	}
}

// openTries limits the retries of an open that fails with EAGAIN. Causes are concurrent renames, and a lease of
// another process on the file.
const openTries = 100

// beneath restricts the kernel to paths below the directory, without symbolic links, on one file system.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

func openStep(dir int, path string, flags int, perm uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: perm, Resolve: beneath}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		if err == unix.EINTR || err == unix.EAGAIN && try < openTries {
			continue
		}
		return fd, err
	}
}

// parentFD opens the parent folder of a path. It also returns the name in that folder.
func parentFD(root int, path string) (dir int, name string, err error) {
	dir, err = openAt(root, parentOf(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, nameOf(path), err
}

// errNotRegular is returned for an entry that is not, or no longer, a regular file.
var errNotRegular = errors.New("not a regular file")

// file is a regular file that is open for reading. It needs fewer system calls than os.File.
type file struct {
	fd   int
	path string

	mu     sync.RWMutex // guards closed: an upload may still read during Close, and the descriptor could be reused
	closed bool
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, &os.PathError{Op: "read", Path: f.path, Err: err}
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, from int64) (done int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	for done < len(p) {
		n, err := unix.Pread(f.fd, p[done:], from+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, &os.PathError{Op: "read", Path: f.path, Err: err}
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	return unix.Close(f.fd)
}

// openFile opens a regular file for reading. It does not block on a pipe.
func openFile(root int, path string) (*file, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openAt(root, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, st, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, st, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &file{fd: fd, path: path}, st, nil
}

// setFolder sets the permissions and the modification time of a folder.
func setFolder(root int, path string, mode uint32, ns int64) error {
	fd, err := openAt(root, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == nil {
		err = errors.Join(unix.Fchmod(fd, mode&0o777), setTimes(fd, "", ns))
		_ = unix.Close(fd)
	} else if errors.Is(err, unix.EACCES) {
		err = makeAccessible(root, path, mode&0o777)
	}
	if err != nil {
		return &os.PathError{Op: "set permissions", Path: path, Err: err}
	}
	return nil
}

// makeAccessible sets the permissions of a folder. It also works if the owner cannot read the folder.
func makeAccessible(root int, path string, mode uint32) error {
	fd, err := openAt(root, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// errLinked is returned for a file with several hard links, which share its permissions and time.
var errLinked = errors.New("the file has several names")

// setFile sets the permissions and the time of a file whose content is already right.
func setFile(root int, path string, e *Entry) (Stamp, error) {
	f, st, err := openFile(root, path)
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	if st.Nlink > 1 {
		return Stamp{}, errLinked
	}
	fd := f.fd
	if err := errors.Join(unix.Fchmod(fd, e.Mode&0o777), setTimes(fd, "", e.ModTime)); err != nil {
		return Stamp{}, &os.PathError{Op: "set permissions", Path: path, Err: err}
	}
	return stampOf(fd)
}

func stampOf(fd int) (Stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return Stamp{st.Ctim.Nano(), st.Ino}, err
}

// setTimes sets the modification time of the descriptor, or of the entry name in it.
func setTimes(fd int, name string, ns int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	return unix.UtimesNanoAt(fd, name, times, flags)
}

// remove removes a file, a link or an empty folder. It ignores a missing path and a folder that is not empty.
func remove(root int, path string, kind Kind) error {
	dir, name, err := parentFD(root, path)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(dir)
	flags := 0
	if kind == Folder {
		flags = unix.AT_REMOVEDIR
	}
	return ignoreMissing(unix.Unlinkat(dir, name, flags))
}

// ignoreMissing returns nil for errors that mean that there is nothing to remove.
func ignoreMissing(err error) error {
	if gone(err) || is(err, unix.ENOTEMPTY, unix.EEXIST, unix.EISDIR) {
		return nil
	}
	return err
}

// isNoSpace reports whether a write failed because the disk is full.
func isNoSpace(err error) bool { return is(err, unix.ENOSPC, unix.EDQUOT) }
