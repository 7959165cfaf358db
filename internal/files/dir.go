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
	// Guard is called before each change below the directory, and release right after the change. Guard can hold a
	// lock until release, or return an error, with which the operation fails. No operation waits for a sender or a
	// sync of the disk between Guard and release. Set Guard before the first use. A nil Guard is not called.
	Guard func(ctx context.Context) (release func(), err error)

	dir *os.File
	raw syscall.RawConn
	as  Owner
}

var _ FS = (*Dir)(nil)

// NewDir returns an FS for an open directory. Close closes the directory. All operations run as the given owner. An
// owner other than the process's user requires root; the kernel then clears the dumpable flag of the process, as after
// every change of identity.
func NewDir(dir *os.File, as Owner) (*Dir, error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use directory: %w", err)
	}
	if uid := unix.Geteuid(); uid != 0 && as.UID == uid && as.GID == unix.Getegid() {
		as.Set = false
	}
	d := &Dir{dir: dir, raw: raw, as: as}
	// Fail now if the kernel lacks openat2 or a seccomp filter refuses it.
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

// Close closes the directory. Running operations finish.
func (d *Dir) Close() error { return d.dir.Close() }

// Run calls do with the directory's descriptor, as the owner, for operations on many files. It ignores Guard.
func (d *Dir) Run(do func(root int) error) error { return d.run(do) }

// run calls do as the owner with the directory's descriptor. The descriptor stays open during the call.
func (d *Dir) run(do func(root int) error) error {
	var err error
	if closed := d.raw.Control(func(fd uintptr) {
		err = d.as.run(func() error { return do(int(fd)) })
	}); closed != nil {
		return fmt.Errorf("use directory: %w", fs.ErrClosed) // the only possible reason
	}
	return err
}

// at runs an operation on a path and converts its error with explain.
func (d *Dir) at(ctx context.Context, op, path string, do func(root int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if strings.ContainsRune(path, 0) {
		return invalid("a path has a NUL")
	}
	return explain(op, path, d.run(do))
}

// change is at for operations that change files: it calls Guard first.
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

// maxStep is the length of a path that the kernel resolves in one call.
const maxStep = 3 << 10

// open opens a path below a directory. It resolves a path that is too long for the kernel in steps, each below the
// directory of the previous one.
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

// reopen opens the file of an O_PATH descriptor with other flags.
func reopen(fd, flags int) (int, error) {
	return unix.Open(procFD(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
}

func procFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// beneath makes the kernel refuse paths that leave their directory, even if a process replaces directories by links at
// the same time. Paths into another mount are refused too.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// maxAgain limits the retries after EAGAIN: openat2 could not rule out a concurrent rename.
const maxAgain = 1000

// openBeneath opens a path below dir that is short enough for one system call.
func openBeneath(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		if err != unix.EINTR && (err != unix.EAGAIN || try == maxAgain) {
			return fd, err
		}
	}
}
