package spool

import (
	"os"

	"github.com/berthdev/berth/internal/guest/unix"
)

// file is one of a spool's files, open for reading. Readers look at theirs for every piece of output, so it
// goes without what an os.File has for files that can be waited for.
type file struct{ fd int }

// openFile returns unix.ENOENT as it is: it is what most looks for a segment find.
func openFile(path string) (*file, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			return &file{fd}, nil
		case unix.ENOENT:
			return nil, err
		case unix.EINTR:
		default:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readAt reads from an offset until b is full or the file ends.
func (f *file) readAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(f.fd, b[n:], at+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, os.NewSyscallError("pread", err)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// stat tells how long the file is, and whether it still has a name.
func (f *file) stat() (size int64, linked bool, err error) {
	var s unix.Stat_t
	for {
		err = unix.Fstat(f.fd, &s)
		if err != unix.EINTR {
			return s.Size, s.Nlink > 0, os.NewSyscallError("fstat", err)
		}
	}
}

// close closes a file, if there is one.
func (f *file) close() {
	if f != nil {
		unix.Close(f.fd)
	}
}
