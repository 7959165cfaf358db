package pid1

import "github.com/berthdev/berth/internal/guest/unix"

// The functions of this file follow no links: the root user of an earlier run of the instance may have changed the
// root directory.

const (
	dirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	pathFlags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// ensureDir opens the directory path below dir and makes missing directories. It renames a file of another type in
// path, so that root inside cannot prevent the start of the instance.
func ensureDir(dir int, path string, mode uint32) (int, error) {
	return descend(dir, path, mode, moveAside)
}

// descend is ensureDir, but calls replaced for a file in path that is not a directory.
func descend(dir int, path string, mode uint32, replaced func(dir int, name string) error) (int, error) {
	at, err := unix.Openat(dir, ".", dirFlags, 0)
	if err != nil {
		return -1, err
	}
	for name, rest, more := "", trim(path), true; more; {
		name, rest, more = cut(rest, '/')
		next, err := ensureOne(at, name, mode, replaced)
		unix.Close(at)
		if err != nil {
			return -1, failed(name, err)
		}
		at = next
	}
	return at, nil
}

func ensureOne(dir int, name string, mode uint32, replaced func(dir int, name string) error) (int, error) {
	if name == "" || name == "." || name == ".." {
		return -1, unix.EINVAL
	}
	fd, err := unix.Openat(dir, name, dirFlags, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		err = replaced(dir, name)
	}
	if err != unix.ENOENT {
		return fd, err
	}
	if err := unix.Mkdirat(dir, name, mode); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, dirFlags, 0)
}

// moveAside renames a file and returns ENOENT, as if the file did not exist.
func moveAside(dir int, name string) error {
	for i := 1; i <= 1000; i++ {
		err := unix.Renameat2(dir, name, dir, name+".replaced-"+digits(i), unix.RENAME_NOREPLACE)
		if err == nil {
			return unix.ENOENT
		}
		if err != unix.EEXIST {
			return err
		}
	}
	return unix.EEXIST
}

// splitPath returns the directory and the name of an absolute path.
func splitPath(path string) (dir, name string) {
	path = trim(path)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return ".", path
}

// parentOf opens the parent directory of path and makes missing directories. It returns ENOTDIR for a file in path that
// is not a directory.
func parentOf(root int, path string) (dir int, name string, err error) {
	parent, name := splitPath(path)
	if parent == "." {
		dir, err = unix.Openat(root, ".", dirFlags, 0)
	} else {
		dir, err = descend(root, parent, 0o755, func(int, string) error { return unix.ENOTDIR })
	}
	return dir, name, err
}

// createFile makes a file with this content. It returns EEXIST if the file exists.
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
