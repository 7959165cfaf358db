package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// layer is a directory of this machine that becomes part of an instance's root.
type layer struct {
	role   wire.Role
	dir    int // path is relative to it; AT_FDCWD for an absolute one
	path   string
	target string
	write  bool
	loose  bool   // may stay without an idmap: its files then belong to nobody inside
	image  *place // not a directory but the disk of an instance
}

// trees are layers on their way into an instance: mounts that are nowhere yet.
type trees struct {
	specs []wire.Tree
	files []int
}

func (t *trees) close() { wire.CloseAll(t.files) }

// add clones a layer and gives its files, owned by uids from 0 on, to the user namespace.
func (t *trees) add(l layer, userns int) error {
	fd, err := l.mount()
	if err != nil {
		return err
	}
	if err := hand(fd, l, userns); err != nil {
		unix.Close(fd)
		return err
	}
	t.append(l, fd)
	return nil
}

// mount makes a mount of the layer that is nowhere yet.
func (l layer) mount() (int, error) {
	if l.image != nil {
		return mountImage(l.image)
	}
	fd, err := unix.OpenTree(l.dir, l.path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s: %w", l.path, err)
	}
	return fd, nil
}

func (t *trees) append(l layer, fd int) {
	t.specs = append(t.specs, wire.Tree{Role: l.role, Target: l.target})
	t.files = append(t.files, fd)
}

// hand sets the attributes of a mount that is going to an instance.
func hand(fd int, l layer, userns int) error {
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_IDMAP,
		Propagation: unix.MS_PRIVATE,
		Userns_fd:   uint64(userns),
	}
	if !l.write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
	if l.loose && errors.Is(err, unix.EINVAL) {
		attr.Attr_set &^= unix.MOUNT_ATTR_IDMAP
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
	}
	if err != nil {
		return fmt.Errorf("map the owners of %s: %w", l.path, err)
	}
	return nil
}

// userNamespace opens the user namespace of a process.
func userNamespace(pid int) (*os.File, error) {
	return os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
}
