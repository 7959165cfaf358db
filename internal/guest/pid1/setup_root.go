package pid1

import (
	"github.com/berthdev/berth/internal/guest/unix"
	"github.com/berthdev/berth/internal/guest/wire"
)

// stage is the directory in which the layers of the root are mounted. It exists on every host. The helper mounts a
// tmpfs on it, which pivot unmounts together with the host's root.
const stage = "/proc"

func (w *world) private() error {
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// layers mounts every tree under a short name in stage, and makes stage the current directory. Overlays then name their
// layers by relative paths, and /proc/mounts shows no paths of the host.
func (w *world) layers() error {
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		return err
	}
	if err := unix.Chdir(stage); err != nil {
		return err
	}
	for _, name := range []string{"root", "none"} {
		if err := unix.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	for i := range w.config.Trees {
		if err := w.mountTree(i); err != nil {
			return err
		}
	}
	return nil
}

var layerNames = map[wire.Role]string{
	wire.RoleBase: "base", wire.RoleUsr: "usr", wire.RoleMask: "mask", wire.RoleUpper: "fs",
}

// layerName returns the name of the tree i in stage.
func (w *world) layerName(i int) string {
	if name := layerNames[w.config.Trees[i].Role]; name != "" {
		return name
	}
	return "mount" + digits(i)
}

func (w *world) mountTree(i int) error {
	name, tree := w.layerName(i), w.config.Trees[i]
	switch tree.Role {
	case wire.RoleSpool:
		return failed("spools", holdSpools(w.trees[i]))
	case wire.RoleDev:
		return nil // it goes to /dev as it is
	}
	if err := unix.Mkdir(name, 0o755); err != nil {
		return failed(name, err)
	}
	at, err := unix.Open(name, pathFlags|unix.O_DIRECTORY, 0)
	if err != nil {
		return failed(name, err)
	}
	defer unix.Close(at)
	if tree.Path == "" {
		return failed(name, attach(w.trees[i], at))
	}
	mount, err := ownTree(tree)
	if err != nil {
		return failed(name, err)
	}
	defer unix.Close(mount)
	return failed(name, attach(mount, at))
}

// holdSpools opens the directory of the spools as the descriptor SpoolsFD. The tree is not mounted in the instance: it
// exists as long as the descriptor.
func holdSpools(tree int) error {
	dir, err := unix.Openat(tree, ".", dirFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Dup3(dir, SpoolsFD, unix.O_CLOEXEC)
}

// ownTree clones a tree by its path, for a server that may not clone mounts.
func ownTree(t wire.Tree) (int, error) {
	mount, err := clone(unix.AT_FDCWD, t.Path)
	if err != nil {
		return -1, err
	}
	attrs := uint64(attrSafe)
	if t.Role != wire.RoleUpper {
		attrs |= attrRead
	}
	if err := restrict(mount, attrs); err != nil {
		unix.Close(mount)
		return -1, err
	}
	return mount, nil
}

// mountRoot mounts the instance's root: an overlay of its upper layer and the base.
func (w *world) mountRoot() error {
	mount, err := newMount("overlay", attrSafe,
		option{"lowerdir", "base"}, option{"upperdir", "fs/upper"}, option{"workdir", "fs/work"}, option{"userxattr", ""})
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, "root", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	if w.root, err = unix.Open("root", pathFlags|unix.O_DIRECTORY, 0); err != nil {
		return err
	}
	return writable(w.root)
}

// writable returns an error if an overlay is read-only. The kernel mounts an overlay read-only if it cannot prepare the
// upper layer, for example on a full disk.
func writable(root int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(root, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	if err := unix.Statfs("fs/upper", &st); err == nil && (st.Bavail == 0 || st.Ffree == 0) {
		return unix.ENOSPC
	}
	return unix.EROFS
}

// mountUsr mounts the host's /usr, without the files that the mask hides. It uses an overlay because a bind mount would
// show its path on the host.
func (w *world) mountUsr() error {
	for _, t := range w.config.Trees {
		if t.Role == wire.RoleUsr {
			return mountAt(w.root, "usr", "overlay", attrSafe|attrRead, option{"lowerdir", "mask:usr"}, option{"userxattr", ""})
		}
	}
	return nil
}

// mountMore mounts the template's directories. It uses overlays as mountUsr does, with an empty directory as the second
// layer, because a read-only overlay needs two.
func (w *world) mountMore() error {
	for i, t := range w.config.Trees {
		if t.Role != wire.RoleMount {
			continue
		}
		layers := option{"lowerdir", "none:" + w.layerName(i)}
		if err := mountAt(w.root, t.Target, "overlay", attrSafe|attrRead, layers, option{"userxattr", ""}); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the new root the root directory and unmounts the host's root.
func (w *world) pivot() error {
	if err := unix.Fchdir(w.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return failed("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return failed("detach the host's root", err)
	}
	return unix.Chdir("/")
}
