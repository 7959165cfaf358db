package files

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Rename moves a file, a link or a directory.
func (d *Dir) Rename(ctx context.Context, from, to string, replace bool) error {
	const op = "move file"
	err := d.change(ctx, op, from, func(root int) error {
		source, base, err := openParent(root, from)
		if err != nil {
			return err
		}
		defer unix.Close(source)
		if err := unix.Fstatat(source, base, new(unix.Stat_t), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		return explain(op, to, move(root, source, base, to, replace))
	})
	return err
}

func move(root, source int, base, to string, replace bool) error {
	made, err := makeDirs(root, parentOf(to))
	if err != nil {
		return err
	}
	target, name, err := openParent(root, to)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var flags uint = unix.RENAME_NOREPLACE
	if replace {
		flags = 0
	}
	err = unix.Renameat2(source, base, target, name, flags)
	if err != nil {
		unmakeDirs(root, made)
	}
	switch err {
	case unix.EXDEV:
		return fault.Errorf("move file", api.CodeUnsupported, "a folder that came with the sandbox's base cannot be moved")
	case unix.EINVAL:
		return invalid("a folder cannot be moved into itself")
	}
	return err
}
