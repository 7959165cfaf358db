package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/berthdev/berth/internal/guest/unix"
)

// openFile opens a file of a spool for reading. It returns nil, nil if the file does not exist.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// readAt reads from an offset until b is full or the file ends.
func readAt(f *os.File, b []byte, at int64) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err = f.ReadAt(b, at)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// lengthOf returns the size of a file and reports whether it still has a name.
func lengthOf(f *os.File) (size int64, linked bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.Size(), !ok || stat.Nlink > 0, nil
}

// closeFile closes f if it is not nil.
func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}
