package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk changes the files that the driver keeps about its instances. Tests replace it with one that forgets
// what was not synced.
//
// Which files are synced follows from what the next boot needs. The record, the mark that the instance was
// made and the directories of its root are synced before a create is acknowledged: without them an instance
// cannot start, or is removed as unfinished. The run file, the socket and the reason are made again by the
// next start, and are never synced.
type disk interface {
	mkdir(path string, perm os.FileMode) error
	write(path string, data []byte) error // creates the file or replaces its content in place
	rename(from, to string, flags uint) error
	remove(path string) error
	sync(path string) error // a file's content, or the names in a directory
}

// machine is the disk of this machine.
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

// syncFiles makes the record and the directories of an instance outlive a power loss.
func (p *place) syncFiles(r record) error {
	paths := []string{p.join(recordName), p.join(fsDir), p.path}
	if r.Limits.DiskHard {
		paths = []string{p.join(recordName), p.join(imageName), p.path}
	}
	for _, path := range paths {
		if err := p.disk.sync(path); err != nil {
			return fmt.Errorf("sync instance directory: %w", err)
		}
	}
	return nil
}

// made reports whether the instance was ever ready, and still has its files. An instance without them has
// nothing to start with.
func (p *place) made() bool {
	if _, err := os.Lstat(p.join(madeName)); err != nil {
		return false
	}
	_, plain := os.Lstat(p.join(fsDir, "upper"))
	_, image := os.Lstat(p.join(imageName))
	return plain == nil || image == nil
}

// keep marks an instance as made. Its files outlive a power loss from here on; syncFiles comes before.
func (p *place) keep() error {
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

// adopt keeps an instance that another process made and may not have acknowledged.
func (p *place) adopt() error {
	r, err := p.record()
	if err != nil {
		return err
	}
	if err := p.syncFiles(r); err != nil {
		return err
	}
	return p.keep()
}

// makeMissing makes the directories again that a start needs and nothing is kept in.
func (p *place) makeMissing(r record) error {
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
