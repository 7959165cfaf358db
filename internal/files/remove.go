package files

import (
	"context"
	"errors"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// Remove removes a file, a link or a directory.
func (d *Dir) Remove(ctx context.Context, path string, recursive bool) error {
	const op = "remove file"
	return d.at(ctx, op, path, func(root int) error {
		dir, base, err := openParent(root, path)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		err = unlink(dir, base)
		if err != unix.ENOTEMPTY || !recursive {
			return err
		}
		return removeTree(ctx, dir, base)
	})
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

// keepOpen is how many of the innermost directories a walk keeps open. It comes back to those further
// up through "..", and looks whether that is where it came from.
const keepOpen = 64

// maxDepth bounds what a walk remembers of the way it came.
const maxDepth = 1 << 17

// removal is a walk through a directory that removes what it meets. It takes a bounded number of
// descriptors, whatever the depth.
type removal struct {
	ctx  context.Context
	path []level // from the outermost
}

// level is one directory on the way.
type level struct {
	name     string
	dev, ino uint64
	fd       int // -1 while closed
}

// removeTree removes a directory with everything in it. Whoever adds to it meanwhile can make this take
// longer, until ctx ends, and nothing else.
func removeTree(ctx context.Context, dir int, name string) error {
	r := &removal{ctx: ctx}
	defer r.close()
	if err := r.enter(dir, name); err != nil {
		return err
	}
	for {
		below, err := r.empty()
		if err != nil {
			return err
		}
		if below != "" {
			if err := r.enter(r.top().fd, below); err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
				return err
			}
			continue
		}
		done := r.top().name
		if len(r.path) == 1 {
			return gone(unlink(dir, done))
		}
		if err := r.leave(); err != nil {
			return err
		}
		if err := gone(unlink(r.top().fd, done)); err != nil && err != unix.ENOTEMPTY {
			return err
		}
	}
}

// gone takes it for done when somebody else was faster.
func gone(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}

func (r *removal) top() *level { return &r.path[len(r.path)-1] }

// empty removes from the innermost directory what can be removed at once, and returns the name of a
// directory that first has to be emptied itself.
func (r *removal) empty() (below string, err error) {
	fd := r.top().fd
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return "", err
	}
	err = eachName(r.ctx, fd, func(name string) error {
		switch err := unlink(fd, name); err {
		case nil, unix.ENOENT:
			return nil
		case unix.ENOTEMPTY:
			below = name
			return errFound
		default:
			return err
		}
	})
	if err == errFound {
		err = nil
	}
	return below, err
}

// errFound ends a walk over names; it is never seen outside.
var errFound = errors.New("found")

// enter goes down into a directory, never through a link. One that its owner closed to itself is opened
// first, as its owner can.
func (r *removal) enter(dir int, name string) error {
	if len(r.path) == maxDepth {
		return sandbox.Errorf("remove file", api.CodeConflict, "the folder is nested deeper than %d levels", maxDepth)
	}
	handle, err := openBeneath(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	fd, err := reopen(handle, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES || err == nil && unix.Faccessat(handle, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		closeOther(fd, -1)
		if err := unix.Chmod(procFD(handle), 0o700); err != nil {
			return err
		}
		fd, err = reopen(handle, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return err
	}
	return r.push(fd, name)
}

func (r *removal) push(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	r.path = append(r.path, level{name, st.Dev, st.Ino, fd})
	if old := len(r.path) - 1 - keepOpen; old >= 0 {
		r.path[old].close()
	}
	return nil
}

// leave goes up again.
func (r *removal) leave() error {
	inner := r.top().fd
	defer unix.Close(inner)
	r.path = r.path[:len(r.path)-1]
	outer := r.top()
	if outer.fd >= 0 {
		return nil
	}
	fd, err := unix.Openat(inner, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != outer.dev || st.Ino != outer.ino) {
		err = sandbox.Errorf("remove file", api.CodeConflict, "the folder was moved while it was being removed")
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	outer.fd = fd
	return nil
}

func (l *level) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

func (r *removal) close() {
	for i := range r.path {
		r.path[i].close()
	}
}
