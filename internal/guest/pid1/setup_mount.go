package pid1

import "github.com/berthdev/berth/internal/guest/unix"

// Attributes of mounts.
const (
	attrSafe  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attrPlain = attrSafe | unix.MOUNT_ATTR_NOEXEC
	attrRead  = unix.MOUNT_ATTR_RDONLY
)

// option is a mount option of a file system. An option without a value is a flag.
type option struct{ name, value string }

// newMount makes a detached mount of a new file system.
func newMount(kind string, attrs int, options ...option) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, failed("open file system "+kind, err)
	}
	defer unix.Close(fs)
	// /proc/mounts shows the source as the device. It must not be a name of the host.
	if err := unix.FsconfigSetString(fs, "source", kind); err != nil {
		return -1, failed("configure "+kind+" source", err)
	}
	for _, o := range options {
		if err := configure(fs, o); err != nil {
			return -1, failed("configure "+kind+" "+o.name, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, failed("create "+kind, err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	return mount, failed("mount "+kind, err)
}

func configure(fs int, o option) error {
	if o.value == "" {
		return unix.FsconfigSetFlag(fs, o.name)
	}
	return unix.FsconfigSetString(fs, o.name, o.value)
}

// attach mounts a detached mount on the file or directory at.
func attach(mount, at int) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	return failed("attach a mount", unix.MoveMount(mount, "", at, "", flags))
}

// mountAt mounts a new file system on the directory path below dir. It makes the directory if it is missing.
func mountAt(dir int, path string, kind string, attrs int, options ...option) error {
	at, err := ensureDir(dir, path, 0o755)
	if err != nil {
		return failed(path, err)
	}
	defer unix.Close(at)
	mount, err := newMount(kind, attrs, options...)
	if err != nil {
		return failed(path, err)
	}
	defer unix.Close(mount)
	return failed(path, attach(mount, at))
}

// clone returns a detached bind mount of path.
func clone(dir int, path string) (int, error) {
	tree, err := unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return tree, failed("clone the mount of "+path, err)
}

// cloneDevice returns a detached bind mount of a device. The mount has no nodev attribute, so that the device works.
func cloneDevice(dir int, path string) (int, error) {
	mount, err := clone(dir, path)
	if err != nil {
		return -1, err
	}
	if err := restrict(mount, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		unix.Close(mount)
		return -1, err
	}
	return mount, nil
}

// restrict adds attributes to a mount.
func restrict(mount int, attrs uint64) error {
	attr := unix.MountAttr{Attr_set: attrs}
	return failed("restrict a mount", unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr))
}
