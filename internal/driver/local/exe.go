package local

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/boot"
)

// exe is the helper's program.
type exe struct {
	path string
	tree *os.File // its own mount, or nil
}

// openExe puts the program onto a mount of its own that is nowhere, read only. What runs inside can see
// its own program (/proc/self/exe, and the helper's while a command is being started): there it is a file
// without a place, instead of where this machine keeps it, and nobody can write to it. An ordinary user
// may not make such a mount.
func openExe(path string, tier Tier) (exe, error) {
	if tier != TierRoot {
		return exe{path, nil}, nil
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

// start starts the program with the descriptors of attr. Its own is one more, which the helper closes.
func (e exe) start(attr *os.ProcAttr) (*os.Process, error) {
	path := e.path
	if e.tree != nil {
		path = "/proc/self/fd/" + strconv.Itoa(len(attr.Files))
		attr.Files = append(attr.Files, e.tree)
	}
	return os.StartProcess(path, []string{boot.Name}, attr)
}

func (e exe) close() {
	if e.tree != nil {
		_ = e.tree.Close()
	}
}
