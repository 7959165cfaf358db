package files

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading. Its type is checked before it is opened: opening a pipe or a device can
// block or have side effects.
func (d *Dir) Open(ctx context.Context, path string) (Reader, error) {
	const op = "open file"
	var out *file
	err := d.at(ctx, op, path, func(root int) error {
		handle, err := open(root, path, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(handle)
		var st unix.Stat_t
		if err := unix.Fstat(handle, &st); err != nil {
			return err
		}
		if err := d.openable(op, path, &st); err != nil {
			return err
		}
		fd, err := reopen(handle, unix.O_RDONLY)
		if err != nil {
			return err
		}
		out = &file{os.NewFile(uintptr(fd), path), infoOf(path, &st)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// file is one open file.
type file struct {
	*os.File
	info Info
}

// Info describes the file at the time it was opened.
func (f *file) Info() Info { return f.info }
