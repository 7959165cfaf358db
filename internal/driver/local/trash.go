package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the background waits for what should be gone in a moment.
const patience = 30 * time.Second

// removals is how many instances are removed at a time.
const removals = 4

// emptyTrash removes what is in the trash, but for what is being removed already.
func (d *Driver) emptyTrash() {
	entries, err := os.ReadDir(filepath.Join(d.dir, trashDir))
	if err != nil {
		d.opts.Log.Warn("empty the trash", "error", err)
		return
	}
	var all sync.WaitGroup
	for _, e := range entries {
		if d.takeOn(e.Name()) {
			all.Go(func() {
				defer d.doneWith(e.Name())
				d.removeOne(e.Name())
			})
		}
	}
	all.Wait()
}

// takeOn claims an entry of the trash for this goroutine.
func (d *Driver) takeOn(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removing[name] {
		return false
	}
	d.removing[name] = true
	return true
}

func (d *Driver) doneWith(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removing, name)
}

// removeOne removes an entry of the trash, when it is its turn.
func (d *Driver) removeOne(name string) {
	select {
	case d.tidy <- struct{}{}:
		defer func() { <-d.tidy }()
	case <-d.ctx.Done():
		return
	}
	if err := d.remove(d.ctx, filepath.Join(d.dir, trashDir, name)); err != nil && d.ctx.Err() == nil {
		d.opts.Log.Warn("remove an instance's files", "path", name, "error", err)
	}
}

// WaitIdle waits until everything that was destroyed is gone from this machine.
func (d *Driver) WaitIdle(ctx context.Context) error {
	for {
		d.emptyTrash()
		entries, err := os.ReadDir(filepath.Join(d.dir, trashDir))
		if err != nil || len(entries) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d removals: %w", len(entries), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// remove removes a directory that was an instance's, once nothing of the instance runs.
func (d *Driver) remove(outer context.Context, path string) error {
	ctx, cancel := context.WithTimeout(outer, patience)
	defer cancel()
	p, err := openPlace("", path)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return os.Remove(path)
	}
	if err != nil {
		return ignoreMissing(err)
	}
	defer p.Close()
	if err := d.end(ctx, p); err != nil {
		return err
	}
	return removeTree(outer, path)
}

// end ends what runs of a discarded instance.
func (d *Driver) end(ctx context.Context, p *place) error {
	r := d.lastRun(p)
	alive, err := peerOf(p)
	if err != nil {
		return err
	}
	if alive != nil {
		defer alive.file.Close()
		if err := alive.kill(); err != nil {
			return err
		}
		if r.Group.canFreeze() {
			if err := r.Group.thawDying(); err != nil {
				return err
			}
		}
		if err := alive.wait(ctx); err != nil {
			return err
		}
	}
	return r.Group.remove(ctx)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeTree removes a directory with everything in it, however deep, however large, and whatever its
// modes. It follows no link and holds three descriptors at most: a directory in a directory is moved up
// beside the top one, and its turn comes later.
func removeTree(ctx context.Context, top string) error {
	dir, err := openAny(unix.AT_FDCWD, top)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(dir)
	r := &remover{ctx: ctx, top: dir}
	// What was moved up is in the top directory, so that is read until nothing is left in it.
	for {
		left, err := r.clear(dir, true)
		if err != nil {
			return fmt.Errorf("remove %s: %w", top, err)
		}
		if !left {
			return ignoreMissing(os.Remove(top))
		}
	}
}

type remover struct {
	ctx  context.Context
	top  int
	next int // number for the next directory that is moved up
}

// clear removes what is in a directory. In the top one it also goes into the directories there; below,
// it moves them up. It reports whether anything was there.
func (r *remover) clear(dir int, top bool) (left bool, err error) {
	f, err := reopen(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for {
		if err := r.ctx.Err(); err != nil {
			return left, err
		}
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			left = true
			if err := r.one(dir, e.Name(), top); err != nil && err != unix.ENOENT {
				return left, fmt.Errorf("%q: %w", e.Name(), err)
			}
		}
		if err != nil || len(entries) == 0 {
			return left, nil
		}
	}
}

func (r *remover) one(dir int, name string, top bool) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err != unix.ENOTEMPTY && err != unix.EEXIST {
		return err
	}
	if !top {
		return r.moveUp(dir, name)
	}
	sub, err := openAny(dir, name)
	if err != nil {
		return err
	}
	_, err = r.clear(sub, false)
	unix.Close(sub)
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

func (r *remover) moveUp(dir int, name string) error {
	for {
		r.next++
		err := unix.Renameat2(dir, name, r.top, ".up-"+strconv.Itoa(r.next), unix.RENAME_NOREPLACE)
		if err == unix.EACCES {
			// An ordinary user moves only directories that he may write to.
			if err := allow(dir, name); err != nil {
				return err
			}
			err = unix.Renameat2(dir, name, r.top, ".up-"+strconv.Itoa(r.next), unix.RENAME_NOREPLACE)
		}
		if err != unix.EEXIST {
			return err
		}
	}
}

// openAny opens a directory, even one whose owner may not read it.
func openAny(dir int, name string) (int, error) {
	if err := allow(dir, name); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// allow gives the owner all rights on a directory, and only on a directory.
func allow(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}

// reopen opens a directory a second time, to be read from its beginning.
func reopen(dir int) (*os.File, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "directory"), nil
}
