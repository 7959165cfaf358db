package local

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/pid1"
)

// exe is the executable file of the helper.
type exe struct {
	path string
	tree *os.File // a detached mount or a copy of the file; nil: path is used
}

// openExe opens the helper's program on a detached mount, read only. Processes inside can open the program through
// /proc/<pid>/exe. The detached mount hides its path on this machine and prevents writes to it. Only root may make
// such a mount, so other tiers use the path.
func openExe(path string, tier Tier) (exe, error) {
	if tier != TierRoot {
		return exe{path, nil}, nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&0o001 == 0 {
		return copyExe(path)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return exe{}, fmt.Errorf("open the helper's program: %w", &os.PathError{Op: "open_tree", Path: path, Err: err})
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return exe{}, fmt.Errorf("open the helper's program: %w", os.NewSyscallError("mount_setattr", err))
	}
	return exe{path, os.NewFile(uintptr(tree), path)}, nil
}

// copyExe copies the program into a file in memory. It is for a program that not every user may execute, because a
// user of the instance executes the helper.
func copyExe(path string) (exe, error) {
	program, err := os.Open(path)
	if err != nil {
		return exe{}, fmt.Errorf("copy the helper's program: %w", err)
	}
	defer program.Close()
	fd, err := unix.MemfdCreate(pid1.Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return exe{}, fmt.Errorf("copy the helper's program: %w", os.NewSyscallError("memfd_create", err))
	}
	copied := os.NewFile(uintptr(fd), path)
	if _, err = io.Copy(copied, program); err == nil {
		const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
		_, err = unix.FcntlInt(copied.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		copied.Close()
		return exe{}, fmt.Errorf("copy the helper's program: %w", err)
	}
	return exe{path, copied}, nil
}

// start starts the program with the descriptors of attr. It appends the program's own descriptor, which the helper
// closes.
func (e exe) start(attr *os.ProcAttr) (*os.Process, error) {
	path := e.path
	if e.tree != nil {
		path = "/proc/self/fd/" + strconv.Itoa(len(attr.Files))
		attr.Files = append(attr.Files, e.tree)
	}
	return os.StartProcess(path, []string{pid1.Name}, attr)
}

func (e exe) close() {
	if e.tree != nil {
		_ = e.tree.Close()
	}
}
