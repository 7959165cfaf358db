package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk makes all changes to the driver's own files about instances. Tests replace it with an implementation that
// loses writes without a sync.
//
// Files that are needed after a power loss are synced before Create returns: the record, the file madeName and
// the directories of the instance's root. Without them an instance cannot start, or is removed as unfinished.
// The run file, the socket and the reason are not synced, because the next start makes them again.
type disk interface {
	mkdir(path string, perm os.FileMode) error
	write(path string, data []byte) error // creates the file or replaces its content in place
	rename(from, to string, flags uint) error
	remove(path string) error
	sync(path string) error // syncs the content of a file, or the names in a directory

	// copySparse copies a file, keeps its holes and syncs the copy.
	copySparse(from, to string) error
}

// machine is the disk that uses the file systems of this machine.
type machine struct{}

func (machine) mkdir(path string, perm os.FileMode) error { return os.Mkdir(path, perm) }

func (machine) write(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }

func (machine) rename(from, to string, flags uint) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (machine) remove(path string) error { return os.Remove(path) }

func (machine) sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (machine) copySparse(from, to string) error { return copySparse(from, to) }

// syncFiles syncs the record and the directories of an instance, so that they survive a power loss. The content of an
// image was synced when it was made.
func (p *instanceDir) syncFiles(r record) error {
	paths := []string{p.join(recordName), p.join(fsDir), p.path}
	if r.Limits.DiskHard {
		paths = []string{p.join(recordName), p.path}
	}
	for _, path := range paths {
		if err := p.disk.sync(path); err != nil {
			return fmt.Errorf("sync instance directory: %w", err)
		}
	}
	return nil
}

// made reports whether the instance has run before and still has its files. Otherwise it cannot be started.
func (p *instanceDir) made() bool {
	if _, err := os.Lstat(p.join(madeName)); err != nil {
		return false
	}
	_, plain := os.Lstat(p.join(fsDir, "upper"))
	_, image := os.Lstat(p.join(imageName))
	return plain == nil || image == nil
}

// keep marks an instance as made. After syncFiles and keep, its files survive a power loss.
func (p *instanceDir) keep() error {
	err := p.disk.write(p.join(madeName), nil)
	for _, path := range []string{p.path, filepath.Dir(p.path)} {
		if err == nil {
			err = p.disk.sync(path)
		}
	}
	if err != nil {
		return fmt.Errorf("mark instance as made: %w", err)
	}
	return nil
}

// adopt syncs and marks an instance that another process has made. That process may have died before it did so.
func (p *instanceDir) adopt() error {
	r, err := p.record()
	if err != nil {
		return err
	}
	if err := p.syncFiles(r); err != nil {
		return err
	}
	return p.keep()
}

// makeMissing makes missing directories again that a start needs and that hold no files of the instance.
func (p *instanceDir) makeMissing(r record) error {
	dirs := []string{spoolDir}
	if !r.Limits.DiskHard {
		dirs = append(dirs, filepath.Join(fsDir, "work"))
	}
	for _, sub := range dirs {
		if err := p.disk.mkdir(p.join(sub), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make instance directory: %w", err)
		}
	}
	return nil
}
