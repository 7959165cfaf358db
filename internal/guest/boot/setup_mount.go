package boot

import "github.com/berthdev/berth/internal/guest/unix"

// Attributes of mounts.
const (
	attrSafe  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attrPlain = attrSafe | unix.MOUNT_ATTR_NOEXEC
	attrRead  = unix.MOUNT_ATTR_RDONLY
)

// option is one of a file system; without a value it is a flag.
type option struct{ name, value string }

// newMount makes a mount that is not yet anywhere.
func newMount(kind string, attrs int, options ...option) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, failed("open file system "+kind, err)
	}
	defer unix.Close(fs)
	// What /proc/mounts shows as the device: no name of the host.
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

// attach puts a mount on what at refers to.
func attach(mount, at int) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	return failed("attach a mount", unix.MoveMount(mount, "", at, "", flags))
}

// mountAt makes a mount and puts it on a directory below dir.
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

// clone makes a mount of what is at path, as it is in this mount namespace.
func clone(dir int, path string) (int, error) {
	tree, err := unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return tree, failed("clone the mount of "+path, err)
}

// cloneDevice makes a mount of a device of the host. It must stay one, so it is not without devices.
func cloneDevice(name string) (int, error) {
	mount, err := clone(unix.AT_FDCWD, "/dev/"+name)
	if err != nil {
		return -1, err
	}
	if err := restrict(mount, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		unix.Close(mount)
		return -1, err
	}
	return mount, nil
}

// restrict sets further attributes of a mount.
func restrict(mount int, attrs uint64) error {
	attr := unix.MountAttr{Attr_set: attrs}
	return failed("restrict a mount", unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr))
}
