package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tree is a directory that is saved and restored. Everything in it is reached from its descriptor, and no
// link is followed on the way.
type Tree interface {
	// Run calls do with the directory's descriptor, as the user whose files they are. Several may run at
	// once.
	Run(do func(root int) error) error
}

// Dir is a directory of this machine as a Tree, used as the process's own user.
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
func (d *Dir) Run(do func(root int) error) error { return do(int(d.f.Fd())) }

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// beneath is how every path is resolved: below the root, without links, on one file system.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openAt opens a path below root. An empty path is the root itself.
func openAt(root int, path string, flags int, perm uint64) (int, error) {
	if path == "" {
		path = "."
	}
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: perm, Resolve: beneath}
	for {
		fd, err := unix.Openat2(root, path, &how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

// parentFD opens the folder that a path is in.
func parentFD(root int, path string) (dir int, name string, err error) {
	dir, err = openAt(root, parentOf(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, nameOf(path), err
}

// errNotRegular is a file that became something else, or something that cannot be saved.
var errNotRegular = errors.New("not a regular file")

// openFile opens a regular file for reading. A pipe in its place does not block it.
func openFile(root int, path string) (*os.File, unix.Stat_t, error) {
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
	return os.NewFile(uintptr(fd), path), st, nil
}

// tempPrefix begins the names of files that are being written. What a crash left of them is swept before
// the next restore, and never saved.
const tempPrefix = ".berth-tmp-"

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// writeFile writes a whole file at path, atomically where something is there already, and returns its
// stamp.
func writeFile(root int, e *Entry, path string, fresh bool, from io.Reader) (stamp Stamp, err error) {
	dir, name, err := parentFD(root, path)
	if err != nil {
		return stamp, &os.PathError{Op: "write", Path: path, Err: err}
	}
	defer unix.Close(dir)
	at := name
	if !fresh {
		at = tempName(name)
	}
	fd, err := unix.Openat(dir, at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return stamp, &os.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = unix.Unlinkat(dir, at, 0)
		}
	}()
	n, err := io.Copy(f, from)
	if err == nil && n != e.Size {
		err = fmt.Errorf("%s: %d bytes came, not %d: %w", e.Path, n, e.Size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Chmod(os.FileMode(e.Mode & 0o777))
	}
	if err == nil {
		err = setTimes(fd, "", e.ModTime)
	}
	if err == nil && !fresh {
		err = replace(dir, at, name)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	return Stamp{st.Ctim.Nano(), st.Ino}, err
}

// replace moves a file that is complete to its name, in the place of whatever is there but a folder with
// something in it.
func replace(dir int, from, to string) error {
	err := unix.Renameat(dir, from, dir, to)
	if err == unix.EISDIR || err == unix.EEXIST || err == unix.ENOTEMPTY {
		if err = unix.Unlinkat(dir, to, unix.AT_REMOVEDIR); err == nil {
			err = unix.Renameat(dir, from, dir, to)
		}
	}
	return err
}

func tempName(name string) string {
	if len(name) > 100 {
		name = name[:100]
	}
	return fmt.Sprintf("%s%d-%s", tempPrefix, os.Getpid(), strings.ToValidUTF8(name, "_"))
}

// makeLink makes a symbolic link, in the place of whatever is there but a folder with something in it.
func makeLink(root int, e *Entry, path string, fresh bool) error {
	dir, name, err := parentFD(root, path)
	if err != nil {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	defer unix.Close(dir)
	at := name
	if !fresh {
		at = tempName(name)
		_ = unix.Unlinkat(dir, at, 0)
	}
	if err = unix.Symlinkat(e.Target, dir, at); err == nil {
		err = setTimes(dir, at, e.ModTime)
	}
	if err == nil && !fresh {
		err = replace(dir, at, name)
	}
	if err != nil {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}

// moveAside gives a file or link another name in its folder.
func moveAside(root int, path, to string) error {
	dir, name, err := parentFD(root, path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Renameat2(dir, name, dir, nameOf(to), unix.RENAME_NOREPLACE)
}

// makeFolder makes a folder, in the place of a file or a link that is there.
func makeFolder(root int, path string) error {
	dir, name, err := parentFD(root, path)
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	defer unix.Close(dir)
	if err = unix.Mkdirat(dir, name, 0o755); err == unix.EEXIST {
		var st unix.Stat_t
		if err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err = unix.Unlinkat(dir, name, 0); err == nil {
				err = unix.Mkdirat(dir, name, 0o755)
			}
		}
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// setFolder gives a folder its permissions and time, once nothing in it is written any more.
func setFolder(root int, e *Entry) error {
	dir, name, err := parentFD(root, e.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: e.Path, Err: err}
	}
	defer unix.Close(fd)
	return errors.Join(unix.Fchmod(fd, e.Mode&0o777), setTimes(fd, "", e.ModTime))
}

// setFile gives a file that is already right the permissions and time of an entry.
func setFile(root int, e *Entry) error {
	f, _, err := openFile(root, e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chmod(os.FileMode(e.Mode&0o777)), setTimes(int(f.Fd()), "", e.ModTime))
}

// setTimes sets the time of the last change of what the descriptor is, or of a name in it.
func setTimes(fd int, name string, ns int64) error {
	if ns == 0 {
		return nil
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	return unix.UtimesNanoAt(fd, name, times, flags)
}

// remove removes a file, a link or an empty folder. What is gone, or is a folder that is not empty,
// stays as it is.
func remove(root int, e *Entry) error {
	dir, name, err := parentFD(root, e.Path)
	if err != nil {
		return passable(err)
	}
	defer unix.Close(dir)
	flags := 0
	if e.Kind == Folder {
		flags = unix.AT_REMOVEDIR
	}
	return passable(unix.Unlinkat(dir, name, flags))
}

// passable are the errors of a removal that had nothing to remove.
func passable(err error) error {
	for _, fine := range []error{unix.ENOENT, unix.ENOTDIR, unix.ENOTEMPTY, unix.EEXIST, unix.ELOOP, unix.EISDIR} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}

// full reports whether a write failed for want of space.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
