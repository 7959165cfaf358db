package boot

import "github.com/berthdev/berth/internal/guest/unix"

// What is in the root may have been put there by whoever ran in the instance before it was stopped, so no
// link is followed anywhere here.

const (
	dirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	pathFlags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// ensureDir opens a directory below dir, making what is missing of its path.
func ensureDir(dir int, path string, mode uint32) (int, error) {
	at, err := unix.Openat(dir, ".", dirFlags, 0)
	if err != nil {
		return -1, err
	}
	for name, rest, more := "", trim(path), true; more; {
		name, rest, more = cut(rest, '/')
		next, err := ensureOne(at, name, mode)
		unix.Close(at)
		if err != nil {
			return -1, failed(name, err)
		}
		at = next
	}
	return at, nil
}

func ensureOne(dir int, name string, mode uint32) (int, error) {
	if name == "" || name == "." || name == ".." {
		return -1, unix.EINVAL
	}
	fd, err := unix.Openat(dir, name, dirFlags, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	if err := unix.Mkdirat(dir, name, mode); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, dirFlags, 0)
}

// splitPath is the directory and the name of an absolute path.
func splitPath(path string) (dir, name string) {
	path = trim(path)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return ".", path
}

// parentOf opens the directory that path lies in.
func parentOf(root int, path string) (dir int, name string, err error) {
	parent, name := splitPath(path)
	if parent == "." {
		dir, err = unix.Openat(root, ".", dirFlags, 0)
	} else {
		dir, err = ensureDir(root, parent, 0o755)
	}
	return dir, name, err
}

// createFile makes a file that was not there.
func createFile(dir int, name string, mode uint32, data []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeAll(fd, data)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
