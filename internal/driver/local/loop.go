package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/driver"
)

// A disk limit that is hard is the size of a file system of the instance's own, in a file. It is mounted
// nowhere on this machine: the mount goes into the instance, and with the instance it goes.

const (
	imageName = "disk.img"
	minImage  = 16 << 20
)

// checkImage says whether an instance could have such a disk.
func checkImage(l driver.Limits) error {
	if l.DiskBytes < minImage {
		return fmt.Errorf("%w: a hard limit on the disk must be %d MiB at least", driver.ErrInvalid, minImage>>20)
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return fmt.Errorf("%w: a hard limit on the disk needs mkfs.ext4 (package e2fsprogs)", driver.ErrInvalid)
	}
	return nil
}

// makeImage makes an empty file system with the two directories of an overlay.
func makeImage(ctx context.Context, p *place, size int64) error {
	path := p.join(imageName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	mkfs := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path)
	if out, err := mkfs.CombinedOutput(); err != nil {
		return fmt.Errorf("make disk: mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	mount, err := mountImage(p)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	for _, name := range []string{"upper", "work"} {
		if err := unix.Mkdirat(mount, name, 0o755); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	if err := syncMount(mount); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return nil
}

// syncMount writes a file system to its device, and through it to the file.
func syncMount(mount int) error {
	root, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return unix.Syncfs(root)
}

// mountImage mounts the instance's disk nowhere. Its lock is held, so that nobody else is about to: the
// same file must not be two disks at a time.
func mountImage(p *place) (int, error) {
	loop, name, err := attachLoop(p.join(imageName))
	if err != nil {
		return -1, err
	}
	defer unix.Close(loop)
	mount, err := mountDevice(name)
	if err != nil {
		return -1, fmt.Errorf("mount disk: %w", err)
	}
	return mount, nil
}

func mountDevice(device string) (int, error) {
	ctx, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "source", device); err != nil {
		return -1, err
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// attachLoop finds the device that the file is attached to, or attaches it to one. The device lets go of
// the file by itself when nothing uses it any more.
func attachLoop(path string) (loop int, name string, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return -1, "", fmt.Errorf("attach disk: %w", err)
	}
	defer file.Close()
	if loop, name, err = findLoop(file); loop >= 0 || err != nil {
		return loop, name, err
	}
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", fmt.Errorf("attach disk: /dev/loop-control: %w", err)
	}
	defer unix.Close(control)
	for {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return -1, "", fmt.Errorf("attach disk: %w", err)
		}
		name := "/dev/loop" + strconv.Itoa(n)
		loop, err := configureLoop(name, file)
		if err == nil || !errors.Is(err, unix.EBUSY) { // somebody else may have been given the same
			return loop, name, err
		}
	}
}

func configureLoop(name string, file *os.File) (int, error) {
	loop, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("attach disk: %s: %w", name, err)
	}
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	if err := unix.IoctlLoopConfigure(loop, &config); err != nil {
		unix.Close(loop)
		return -1, fmt.Errorf("attach disk: %s: %w", name, err)
	}
	return loop, nil
}

// findLoop finds the device that a file is attached to; -1 if there is none.
func findLoop(file *os.File) (loop int, name string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return -1, "", fmt.Errorf("find disk: %w", err)
	}
	attached, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return -1, "", fmt.Errorf("find disk: %w", err)
	}
	for _, dir := range attached {
		name := "/dev/" + filepath.Base(filepath.Dir(dir))
		loop, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err != nil {
			return -1, "", fmt.Errorf("find disk: %s: %w", name, err)
		}
		info, err := unix.IoctlLoopGetStatus64(loop)
		if err == nil && info.Device == st.Dev && info.Inode == st.Ino {
			return loop, name, nil
		}
		unix.Close(loop)
	}
	return -1, "", nil
}
