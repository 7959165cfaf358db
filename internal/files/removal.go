package files

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// keepOpen is the number of innermost directories that a removal keeps open. It opens outer ones again through "..",
// and checks that they are the same directories as before.
const keepOpen = 64

// maxDepth limits the depth of a removal.
const maxDepth = 1 << 17

// workTime is the time for which a removal holds the guard before it releases it for other operations. Tests change it.
var workTime = 50 * time.Millisecond

// removal removes a directory with its contents. It uses a bounded number of descriptors, independent of the depth. A
// process that adds files at the same time can only prolong it, until ctx ends.
type removal struct {
	ctx   context.Context
	dir   int       // the parent of the directory to remove; -1 before begin
	path  []level   // the directories from the one to remove to the current one
	until time.Time // when work pauses
	done  bool
}

// level is one directory of the current path.
type level struct {
	name     string
	dev, ino uint64
	fd       int // -1 while closed
}

// begin removes a file or an empty directory. If recursive is set, it enters a directory that is not empty.
func (r *removal) begin(root int, path string, recursive bool) error {
	dir, base, err := openParent(root, path)
	if err != nil {
		return err
	}
	r.dir = dir
	err = unlink(dir, base)
	if err != unix.ENOTEMPTY || !recursive {
		r.done = true
		return err
	}
	return r.enter(dir, base)
}

// work continues the removal for workTime, but at least one step.
func (r *removal) work(int) error {
	r.until = time.Now().Add(workTime)
	err := r.step()
	for err == nil && !r.done && !r.tired() {
		err = r.step()
	}
	return err
}

func (r *removal) tired() bool { return time.Now().After(r.until) }

// step empties the innermost directory and removes it, or enters one of its directories.
func (r *removal) step() error {
	below, err := r.empty()
	switch {
	case err == errTired:
		return nil
	case err != nil:
		return err
	case below != "":
		if err := r.enter(r.top().fd, below); err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
			return err
		}
		return nil
	}
	empty := r.top().name
	if len(r.path) == 1 {
		r.done = true
		return ignoreNotExist(unlink(r.dir, empty))
	}
	if err := r.leave(); err != nil {
		return err
	}
	if err := ignoreNotExist(unlink(r.top().fd, empty)); err != unix.ENOTEMPTY {
		return err
	}
	return nil
}

// ignoreNotExist ignores errors of entries that were removed concurrently.
func ignoreNotExist(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}

func (r *removal) top() *level { return &r.path[len(r.path)-1] }

// empty removes the entries of the innermost directory until it finds a directory that is not empty. It returns the
// name of this directory, or "" if all entries are removed.
func (r *removal) empty() (below string, err error) {
	fd := r.top().fd
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return "", err
	}
	err = eachName(r.ctx, fd, func(name string) error {
		switch err := unlink(fd, name); err {
		case nil, unix.ENOENT:
			if r.tired() {
				return errTired
			}
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

// These errors stop eachName in empty. They are not returned to callers of Remove.
var (
	errFound = errors.New("found") // a directory that is not empty
	errTired = errors.New("tired") // workTime has passed
)

// enter opens a directory, but not through a link. If the owner may not list or change it, enter changes its
// permissions first.
func (r *removal) enter(dir int, name string) error {
	if len(r.path) == maxDepth {
		return fault.Errorf("remove file", api.CodeConflict, "the folder is nested deeper than %d levels", maxDepth)
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

// leave returns to the parent.
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
		err = fault.Errorf("remove file", api.CodeConflict, "the folder was moved while it was being removed")
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
	closeOther(r.dir, -1)
	for i := range r.path {
		r.path[i].close()
	}
}

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

// unlink removes a file or an empty directory.
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
