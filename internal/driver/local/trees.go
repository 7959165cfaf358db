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
	role          wire.Role
	dir           int // descriptor of the directory that path is relative to; AT_FDCWD for an absolute path
	path          string
	target        string // mount point inside, for wire.RoleMount
	write         bool   // the instance may write to it
	idmapOptional bool   // it may stay without an idmap: its files then have an unmapped owner inside
	image         *image // an image whose mount is used instead of path; nil: none
}

// trees are the detached mounts that the helper gets for an instance's root.
type trees struct {
	specs []wire.Tree
	files []int // descriptors of the mounts, in the order of specs
}

func (t *trees) close() { wire.CloseAll(t.files) }

// add adds a detached mount of a layer whose owners are mapped to the user namespace. The owners on the disk are uids
// from 0 on.
func (t *trees) add(l layer, userns int) error {
	fd, err := l.mount()
	if err != nil {
		return err
	}
	if err := setAttributes(fd, l, userns); err != nil {
		unix.Close(fd)
		return err
	}
	t.append(l, fd)
	return nil
}

// mount returns a detached mount of the layer.
func (l layer) mount() (int, error) {
	if l.image != nil {
		return l.image.mount, nil
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

// setAttributes sets the attributes of a detached mount for an instance: no setuid, no devices, the idmap, and read only
// unless the layer may be written.
func setAttributes(fd int, l layer, userns int) error {
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_IDMAP,
		Propagation: unix.MS_PRIVATE,
		Userns_fd:   uint64(userns),
	}
	if !l.write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
	if l.idmapOptional && errors.Is(err, unix.EINVAL) {
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
