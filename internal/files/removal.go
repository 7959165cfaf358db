package files

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// keepOpen is how many of the innermost directories a walk keeps open. It comes back to those further
// up through "..", and looks whether that is where it came from.
const keepOpen = 64

// maxDepth bounds what a walk remembers of the way it came.
const maxDepth = 1 << 17

// workTime is how long a walk goes on before others get their turn at the guard. Tests change it.
var workTime = 50 * time.Millisecond

// removal is a walk through a directory that removes what it meets. It takes a bounded number of
// descriptors, whatever the depth. Whoever adds to the directory meanwhile can make this take longer, until
// ctx ends, and nothing else.
type removal struct {
	ctx   context.Context
	dir   int     // where it began; -1 if it has not
	path  []level // from the outermost
	until time.Time
	done  bool
}

// level is one directory on the way.
type level struct {
	name     string
	dev, ino uint64
	fd       int // -1 while closed
}

// begin removes what can be removed at once, or goes down into it.
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

// work goes on for a while, by one step at least.
func (r *removal) work(int) error {
	r.until = time.Now().Add(workTime)
	err := r.step()
	for err == nil && !r.done && !r.tired() {
		err = r.step()
	}
	return err
}

func (r *removal) tired() bool { return time.Now().After(r.until) }

// step empties the innermost directory and removes it, or goes down into one that is in it.
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
		return gone(unlink(r.dir, empty))
	}
	if err := r.leave(); err != nil {
		return err
	}
	if err := gone(unlink(r.top().fd, empty)); err != unix.ENOTEMPTY {
		return err
	}
	return nil
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

// These end a walk over names; they are never seen outside.
var (
	errFound = errors.New("found")
	errTired = errors.New("tired")
)

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
	closeOther(r.dir, -1)
	for i := range r.path {
		r.path[i].close()
	}
}
