package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An instance that was made with a watched limit gets an image at its next start. The driver copies the files into a new
// image, renames the image to its final name and then discards the directory. If the process is killed in between, the
// files are complete in one of the two places: the image if it has its final name, otherwise the directory.

const (
	movingName = "disk.img.new"
	// keptName is the file with the reason why the files of an instance stay in a directory, for people.
	keptName = "watched"
	// moveTime limits the time of the copy during a start.
	moveTime = 20 * time.Second
	tooSlow  = "they are too many to be copied while it starts"
)

// moveToImage moves the files of a stopped instance into an image, if its limit can be hard. It returns the mounted
// image. It returns nil if the files stay or are already in an image. If they do not fit, they stay in the directory
// with a watched limit, and it records the reason.
func (ds disks) moveToImage(ctx context.Context, p *instanceDir, r *record) (*image, error) {
	if r.Limits.DiskHard {
		return nil, ds.dropMoved(p)
	}
	limits, err := ds.withDisk(ctx, r.Limits)
	if err != nil || !limits.DiskHard || strings.HasSuffix(p.kept(), tooSlow) {
		return nil, nil // the instance can run with its directory
	}
	if err := ignoreMissing(os.Remove(p.join(movingName))); err != nil {
		return nil, err
	}
	made, err := ds.fillImage(ctx, p, *r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		why := "its files stay in a directory, and its disk limit is watched: " + strings.TrimPrefix(err.Error(), "move files: ")
		ds.d.opts.Log.Warn("move an instance's files into a disk of its own", "instance", p.id, "error", err)
		return nil, p.disk.write(p.join(keptName), []byte(why[:min(len(why), maxReason)]))
	}
	ds.d.opts.At("moved", p.id)
	r.Limits.DiskHard = true
	// The record is changed for servers of earlier versions, which do not look for an image.
	if err := errors.Join(writeJSON(p, recordName, *r), p.disk.sync(p.join(recordName)), p.disk.sync(p.path), ds.dropMoved(p)); err != nil {
		unix.Close(made.mount)
		return nil, err
	}
	return &made, nil
}

// fillImage copies the files into a new image, syncs it and renames it to its final name.
func (ds disks) fillImage(ctx context.Context, p *instanceDir, r record) (made image, err error) {
	made, err = ds.d.images.take(ctx, r.Limits.DiskBytes)
	if err != nil {
		return image{}, fmt.Errorf("move files: %w", err)
	}
	defer func() {
		if err != nil {
			discard([]image{made})
		}
	}()
	if err := ds.d.disk.rename(made.path, p.join(movingName), 0); err != nil {
		return made, fmt.Errorf("move files: %w", err)
	}
	made.path = p.join(movingName)
	if err := copyUpper(ctx, p, made.mount); err != nil {
		return made, fmt.Errorf("move files: %w", err)
	}
	ds.d.opts.At("moving", p.id)
	for _, step := range []func() error{
		func() error { return syncMount(made.mount) },
		func() error { return p.disk.sync(made.path) },
		func() error { return p.disk.rename(made.path, p.join(imageName), unix.RENAME_NOREPLACE) },
	} {
		if err := step(); err != nil {
			return made, fmt.Errorf("move files: %w", err)
		}
	}
	made.path = p.join(imageName)
	return made, p.disk.sync(p.path)
}

// copyUpper copies the upper layer into an image, with owners, modes, times, links, holes and extended attributes. It
// follows no link. The instance must not run.
func copyUpper(ctx context.Context, p *instanceDir, mount int) error {
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	to, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	target := os.NewFile(uintptr(to), "disk")
	defer target.Close()
	cmd := exec.CommandContext(ctx, "cp", "-R", "-d", "--sparse=auto", "--preserve=mode,ownership,timestamps,links,xattr", "--",
		"/proc/self/fd/3/"+fsDir+"/upper", "/proc/self/fd/4/")
	cmd.ExtraFiles = []*os.File{p.dir, target}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case strings.Contains(string(out), unix.ENOSPC.Error()), strings.Contains(string(out), "No space left"):
		return errors.New("they take more than the limit")
	case ctx.Err() != nil:
		return errors.New(tooSlow)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("cp: %w: %s", err, line)
}

// syncMount writes a file system to its device, and so to the image file.
func syncMount(mount int) error {
	root, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return unix.Syncfs(root)
}

// dropMoved discards the directory of an instance whose files are in its image, and the recorded reason.
func (ds disks) dropMoved(p *instanceDir) error {
	if err := ignoreMissing(p.disk.remove(p.join(keptName))); err != nil {
		return err
	}
	_, err := os.Lstat(p.join(fsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(err, ds.d.unmountFiles(p)); err != nil {
		return err
	}
	return ds.d.trash.discard(p.join(fsDir))
}

// kept returns the recorded reason why the files of an instance stay in a directory; empty: none.
func (p *instanceDir) kept() string {
	data, err := os.ReadFile(p.join(keptName))
	if err != nil {
		return ""
	}
	return string(data[:min(len(data), maxReason)])
}
