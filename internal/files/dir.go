package files

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is a directory of this machine as an [FS].
type Dir struct {
	// Guard is called before anything below the directory is changed, and what it returns right after.
	// It is the place to keep the directory's owner away meanwhile, or to refuse: its error is the
	// operation's. It is never held for as long as a sender or the disk takes. Set it before the first
	// use; nil guards nothing.
	Guard func(ctx context.Context) (release func(), err error)

	dir *os.File
	raw syscall.RawConn
	as  Owner
}

var _ FS = (*Dir)(nil)

// NewDir makes an FS of an open directory, which it takes over: Close closes it. Every operation runs as
// the given owner. An owner other than the process's own user takes root; the process is then no longer
// dumpable, as after every change of identity.
func NewDir(dir *os.File, as Owner) (*Dir, error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use directory: %w", err)
	}
	if uid := unix.Geteuid(); uid != 0 && as.UID == uid && as.GID == unix.Getegid() {
		as.Set = false
	}
	d := &Dir{dir: dir, raw: raw, as: as}
	// One try, so that a kernel or a filter that lacks something is found out here.
	err = d.run(func(root int) error {
		fd, err := openBeneath(root, ".", unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open directory beneath itself: %w", err)
	}
	return d, nil
}

// Close closes the directory. Operations under way finish.
func (d *Dir) Close() error { return d.dir.Close() }

// Run calls do with the directory's descriptor, as the owner, for whoever works on many files at once.
// It takes no notice of Guard.
func (d *Dir) Run(do func(root int) error) error { return d.run(do) }

// run calls do with the descriptor, which stays open meanwhile, as the owner.
func (d *Dir) run(do func(root int) error) error {
	var err error
	if closed := d.raw.Control(func(fd uintptr) {
		err = d.as.run(func() error { return do(int(fd)) })
	}); closed != nil {
		return fmt.Errorf("use directory: %w", fs.ErrClosed) // the only reason there is
	}
	return err
}

// at runs an operation on a path and puts its error into our words.
func (d *Dir) at(ctx context.Context, op, path string, do func(root int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if strings.ContainsRune(path, 0) {
		return invalid("a path has a NUL")
	}
	return explain(op, path, d.run(do))
}

// change is at for what changes something.
func (d *Dir) change(ctx context.Context, op, path string, do func(root int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.Guard != nil {
		release, err := d.Guard(ctx)
		if err != nil {
			return explain(op, path, err)
		}
		defer release()
	}
	return d.at(ctx, op, path, do)
}

// maxStep is how much of a path the kernel is asked to resolve at once.
const maxStep = 3 << 10

// open opens a path below a directory. The kernel takes only so long ones; the rest of a longer one is
// resolved below the directory that its beginning leads to, which keeps it inside all the more.
func open(root int, name string, flags int) (int, error) {
	if name == "" {
		return openBeneath(root, ".", flags)
	}
	dir := root
	defer func() { closeOther(dir, root) }()
	for len(name) > maxStep {
		cut := strings.LastIndexByte(name[:maxStep], '/')
		if cut <= 0 {
			return -1, unix.ENAMETOOLONG
		}
		next, err := openBeneath(dir, name[:cut], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		closeOther(dir, root)
		dir, name = next, name[cut+1:]
	}
	return openBeneath(dir, name, flags)
}

func closeOther(fd, keep int) {
	if fd != keep {
		_ = unix.Close(fd)
	}
}

// openParent opens the directory that holds a path, and returns the name in it.
func openParent(root int, name string) (dir int, base string, err error) {
	if name == "" {
		return -1, "", invalid("the root itself can be neither written, moved nor removed")
	}
	dir, err = open(root, parentOf(name), unix.O_PATH|unix.O_DIRECTORY)
	return dir, path.Base(name), err
}

func parentOf(name string) string {
	dir, _ := path.Split(name)
	return strings.TrimSuffix(dir, "/")
}

// reopen opens what a descriptor made with O_PATH stands for.
func reopen(fd, flags int) (int, error) {
	return unix.Open(procFD(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
