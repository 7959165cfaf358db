package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// copySparse copies a file and syncs the copy. The copy shares the blocks of the file if the file system supports that.
// Otherwise copySparse copies only the parts with data, so that holes take no space.
func copySparse(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) != nil {
		err = copyData(src, dst)
	}
	if err == nil {
		err = dst.Sync()
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// copyData copies the parts of a file that contain data to the same offsets of another file.
func copyData(src, dst *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); ; {
		begin, err := unix.Seek(int(src.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // only a hole follows
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		end, err := unix.Seek(int(src.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		if err := copyRange(src, dst, begin, end); err != nil {
			return err
		}
		at = end
	}
}

func copyRange(src, dst *os.File, begin, end int64) error {
	buf := make([]byte, min(end-begin, 1<<20))
	for begin < end {
		n, err := src.ReadAt(buf[:min(int64(len(buf)), end-begin)], begin)
		if n == 0 {
			return err
		}
		if _, err := dst.WriteAt(buf[:n], begin); err != nil {
			return err
		}
		begin += int64(n)
	}
	return nil
}
