package files

import (
	"context"

	"golang.org/x/sys/unix"
)

const dirPerm = 0o755

// Mkdir creates a directory and its parents.
func (d *Dir) Mkdir(ctx context.Context, path string) error {
	return d.change(ctx, "make folder", path, func(root int) error {
		_, err := makeDirs(root, path)
		return err
	})
}

// makeDirs creates the missing directories of a path and returns the created ones, outermost first.
func makeDirs(root int, path string) (made []string, err error) {
	if err := probeDir(root, path); err != unix.ENOENT {
		return nil, err
	}
	if made, err = makeDirs(root, parentOf(path)); err != nil {
		return made, err
	}
	dir, base, err := openParent(root, path)
	if err != nil {
		return made, err
	}
	defer unix.Close(dir)
	switch err := unix.Mkdirat(dir, base, dirPerm); err {
	case nil:
		return append(made, path), nil
	case unix.EEXIST: // another process has created it, or it is a dangling link
		return made, probeDir(root, path)
	default:
		return made, err
	}
}

func probeDir(root int, path string) error {
	fd, err := open(root, path, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// unmakeDirs removes the directories that makeDirs created if they are still empty.
func unmakeDirs(root int, made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		dir, base, err := openParent(root, made[i])
		if err != nil {
			return
		}
		err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		_ = unix.Close(dir)
		if err != nil {
			return
		}
	}
}

// Symlink creates a symbolic link with the text target, which is not checked.
func (d *Dir) Symlink(ctx context.Context, target, path string) error {
	return d.change(ctx, "make link", path, func(root int) error {
		made, err := makeDirs(root, parentOf(path))
		if err != nil {
			return err
		}
		dir, base, err := openParent(root, path)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		if err = unix.Symlinkat(target, dir, base); err != nil {
			unmakeDirs(root, made)
		}
		return err
	})
}
