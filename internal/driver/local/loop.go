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

// A hard disk limit is the size of a file system that belongs to one instance and is stored in a sparse file. The file
// takes only the space that the instance uses. Deleting files in the instance frees their space on the host.

const (
	imageName = "disk.img"
	minImage  = 16 << 20
)

// noImageError is the reason why a machine cannot have hard disk limits.
type noImageError struct {
	what string
	err  error
}

func (e *noImageError) Error() string { return e.what + ": " + e.err.Error() }
func (e *noImageError) Unwrap() error { return e.err }

// checkImage returns an error for a hard limit that no instance could have.
func (ds disks) checkImage(ctx context.Context, l driver.Limits) error {
	if l.DiskBytes < minImage {
		return fmt.Errorf("%w: a hard limit on the disk must be %d MiB at least", driver.ErrInvalid, minImage>>20)
	}
	why, err := ds.d.images.supported(ctx)
	if err != nil {
		return err
	}
	if why != "" {
		return fmt.Errorf("%w: no hard limit on the disk is possible here: %s", driver.ErrInvalid, why)
	}
	return nil
}

// inodesFor returns the maximum number of files of an instance: one for each 16 KiB of its limit, and more on small
// disks.
func inodesFor(bytes int64) int64 { return max(bytes>>14, min(16<<10, bytes>>12)) }

// journalFor returns the size of a file system's journal, in MiB.
func journalFor(bytes int64) int64 {
	if bytes < 1<<30 {
		return 4
	}
	return 16
}

// format makes a file with a file system that has room for the given number of bytes, without its own tables. The file
// system contains the two directories of an overlay and the spare files of lendRoom.
func format(ctx context.Context, path string, bytes int64) error {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		return &noImageError{"mkfs.ext4 (package e2fsprogs) is missing", err}
	}
	content := path + ".d"
	defer os.RemoveAll(content)
	for _, dir := range []string{content, content + "/upper", content + "/work", content + "/" + spareDir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	for n := range spareFiles {
		if err := os.WriteFile(filepath.Join(content, spareDir, strconv.Itoa(n)), nil, 0o600); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	inodes, journal := inodesFor(bytes), journalFor(bytes)
	size := bytes + inodes*256 + journal<<20 + 1<<20
	if err := errors.Join(f.Truncate(size&^4095), f.Close()); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-F", "-b", "4096", "-I", "256", "-N", strconv.FormatInt(inodes, 10),
		"-m", "0", "-e", "remount-ro", "-J", "size="+strconv.FormatInt(journal, 10), "-O", "^resize_inode", "-d", content,
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,packed_meta_blocks=1,root_owner=0:0", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make disk: mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// mountImage mounts the file system in a file, without a mount point. One file must not be attached to two devices, so
// the caller must hold the lock of the instance, or be the only one who uses the file.
func mountImage(path string) (image, error) {
	loop, name, err := attachLoop(path)
	if err != nil {
		return image{}, err
	}
	defer unix.Close(loop)
	mount, err := mountDevice(name)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		return image{}, &noImageError{"this process cannot mount ext4", err}
	}
	if err != nil {
		return image{}, fmt.Errorf("mount disk: %w", err)
	}
	return image{path: path, device: filepath.Base(name), mount: mount}, nil
}

// mountFlags are the options of the mount. With discard the space of deleted files becomes free on the host. With
// noinit_itable the kernel does not write empty inode tables, which would take space.
var mountFlags = []string{"discard", "noinit_itable"}

func mountDevice(device string) (int, error) {
	ctx, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "source", device); err != nil {
		return -1, err
	}
	for _, flag := range mountFlags {
		if err := unix.FsconfigSetFlag(ctx, flag); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// attachLoop returns the loop device of a file. It attaches the file to a free device if it has none. The kernel
// detaches it when the device is no longer used.
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
		return -1, "", &noImageError{"/dev/loop-control cannot be opened", err}
	}
	defer unix.Close(control)
	for {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return -1, "", &noImageError{"there is no free loop device", err}
		}
		name := "/dev/loop" + strconv.Itoa(n)
		loop, err := configureLoop(name, file)
		if err == nil || !errors.Is(err, unix.EBUSY) { // on EBUSY another process has taken the device first
			return loop, name, err
		}
	}
}

func configureLoop(name string, file *os.File) (int, error) {
	loop, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &noImageError{"a loop device cannot be opened", &fs.PathError{Op: "open", Path: name, Err: err}}
	}
	// Direct I/O avoids a second copy of the content in the page cache. The kernel does not enable it if the
	// file system below does not support it.
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	err = unix.IoctlLoopConfigure(loop, &config)
	if errors.Is(err, unix.EINVAL) { // older kernels return an error in that case
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopConfigure(loop, &config)
	}
	if err != nil {
		unix.Close(loop)
		return -1, fmt.Errorf("attach disk: %s: %w", name, err)
	}
	return loop, nil
}

// findLoop returns the loop device to which a file is attached, or -1 if there is none.
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
