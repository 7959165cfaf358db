package files

import (
	"context"

	"golang.org/x/sys/unix"
)

// Remove removes a file, a link or a directory.
func (d *Dir) Remove(ctx context.Context, path string, recursive bool) error {
	const op = "remove file"
	r := &removal{ctx: ctx, dir: -1}
	defer r.close()
	err := d.change(ctx, op, path, func(root int) error { return r.begin(root, path, recursive) })
	for err == nil && !r.done {
		err = d.change(ctx, op, path, r.work)
	}
	return err
}

// unlink removes whatever has the name, a directory only if it is empty.
func unlink(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != unix.EISDIR {
		return err
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err == unix.EEXIST {
		err = unix.ENOTEMPTY
	}
	return err
}
