package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// Root of an instance can make setuid programs, and on the disk they belong to uid 0. Those in an image are reached only
// through a mount without setuid programs and devices. For files in a directory the driver makes such a mount in TierRoot:
// it mounts the directory on itself. The mount exists while the instance runs or a driver is open. It survives a killed
// driver, and the next one finds it.

// makeInert mounts the directory with an instance's files on itself, without setuid programs and devices. It does nothing
// if that is already mounted, or if the files are in an image. The caller must hold the lock of the instance.
func (d *Driver) makeInert(p *instanceDir) error {
	if d.opts.Tier != TierRoot {
		return nil
	}
	if mounted, err := isMount(int(p.dir.Fd()), fsDir); mounted || err != nil {
		return ignoreMissing(err)
	}
	mount, err := unix.OpenTree(int(p.dir.Fd()), fsDir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return ignoreMissing(fmt.Errorf("clone the mount of the instance's files: %w", err))
	}
	defer unix.Close(mount)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("make the instance's files inert: %w", err)
	}
	if err := unix.MoveMount(mount, "", int(p.dir.Fd()), fsDir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the instance's files: %w", err)
	}
	return nil
}

// isMount reports whether something is mounted on a directory.
func isMount(dir int, name string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st); err != nil {
		return false, &os.PathError{Op: "statx", Path: name, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// unmountFiles undoes makeInert, for an instance that does not run. A directory on which something is mounted cannot be
// renamed or removed.
func (d *Driver) unmountFiles(p *instanceDir) error {
	if d.opts.Tier != TierRoot {
		return nil
	}
	err := unix.Unmount(p.self(fsDir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // nothing is mounted
	}
	return os.NewSyscallError("unmount the instance's files", err)
}

// unmountStopped undoes makeInert for all instances that do not run.
func (sw sweeper) unmountStopped() {
	for _, id := range sw.d.dirs.ids() {
		if err := sw.unmountOne(id); err != nil && !errors.Is(err, driver.ErrNotFound) {
			sw.d.opts.Log.Warn("unmount an instance's files", "instance", id, "error", err)
		}
	}
}

func (sw sweeper) unmountOne(id driver.ID) error {
	p, err := sw.d.dirs.find(id)
	if err != nil {
		return err
	}
	defer p.Close()
	if mounted, err := isMount(int(p.dir.Fd()), fsDir); !mounted {
		return ignoreMissing(err)
	}
	if p.tryLock(unix.LOCK_EX) != nil {
		return nil // another process is changing the instance
	}
	if alive, err := sw.d.processes.live(p); alive != nil || err != nil {
		return err
	}
	return sw.d.unmountFiles(p)
}
