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

// patience limits a step of the background work that normally takes a moment, such as the end of a process.
const patience = 30 * time.Second

// removals is the number of instances that are removed at the same time.
const removals = 4

// trash removes the files of instances that are gone, in the background.
type trash struct{ d *Driver }

// empty removes the directories in the trash, except those that another goroutine is removing.
func (tr trash) empty() {
	entries, err := os.ReadDir(filepath.Join(tr.d.dir, trashDir))
	if err != nil {
		tr.d.opts.Log.Warn("empty the trash", "error", err)
		return
	}
	var all sync.WaitGroup
	for _, e := range entries {
		if tr.startRemoval(e.Name()) {
			all.Go(func() {
				defer tr.endRemoval(e.Name())
				tr.removeOne(e.Name())
			})
		}
	}
	all.Wait()
}

// startRemoval claims an entry of the trash for this goroutine.
func (tr trash) startRemoval(name string) bool {
	tr.d.mu.Lock()
	defer tr.d.mu.Unlock()
	if tr.d.removing[name] {
		return false
	}
	tr.d.removing[name] = true
	return true
}

func (tr trash) endRemoval(name string) {
	tr.d.mu.Lock()
	defer tr.d.mu.Unlock()
	delete(tr.d.removing, name)
}

// removeOne removes an entry of the trash, once fewer than removals others are being removed.
func (tr trash) removeOne(name string) {
	select {
	case tr.d.removalSlots <- struct{}{}:
		defer func() { <-tr.d.removalSlots }()
	case <-tr.d.ctx.Done():
		return
	}
	if err := tr.remove(tr.d.ctx, filepath.Join(tr.d.dir, trashDir, name)); err != nil && tr.d.ctx.Err() == nil {
		tr.d.opts.Log.Warn("remove an instance's files", "path", name, "error", err)
	}
}

// WaitIdle waits until all destroyed instances are removed from this machine.
func (d *Driver) WaitIdle(ctx context.Context) error {
	for {
		d.trash.empty()
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

// remove ends the processes of a discarded instance and then removes its directory.
func (tr trash) remove(outer context.Context, path string) error {
	ctx, cancel := context.WithTimeout(outer, patience)
	defer cancel()
	p, err := openInstanceDir("", path)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return os.Remove(path)
	}
	if err != nil {
		return ignoreMissing(err)
	}
	defer p.Close()
	if err := errors.Join(tr.d.end(ctx, p), tr.d.unmountFiles(p)); err != nil {
		return err
	}
	return removeTree(outer, path)
}

// end ends the processes of a discarded instance and removes its cgroups.
func (d *Driver) end(ctx context.Context, p *instanceDir) error {
	r := d.runs.lastRun(p)
	alive, err := socketListener(p)
	if err != nil {
		return err
	}
	if alive != nil {
		defer alive.file.Close()
		d.io.removeLimits(r.Group, r.Device)
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

// removeTree removes a directory with its content, of any depth, size and modes. It follows no link and has at most
// three descriptors open: it does not descend into nested directories, but moves them up into the top directory and
// clears them there.
func removeTree(ctx context.Context, top string) error {
	dir, err := openAny(unix.AT_FDCWD, top)
	if err != nil {
		return ignoreMissing(err)
	}
	defer unix.Close(dir)
	r := &remover{ctx: ctx, top: dir}
	// Directories are moved up into the top directory, so it is cleared again until it is empty.
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

// clear removes the content of a directory. In the top directory it also clears the directories there. In the others it
// moves directories up. It reports whether the directory had any entry.
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
			if err := r.removeEntry(dir, e.Name(), top); err != nil && err != unix.ENOENT {
				return left, fmt.Errorf("%q: %w", e.Name(), err)
			}
		}
		if err != nil || len(entries) == 0 {
			return left, nil
		}
	}
}

func (r *remover) removeEntry(dir int, name string, top bool) error {
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
			// An ordinary user can move only directories with write permission.
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

// openAny opens a directory, even if its mode does not allow its owner to read it.
func openAny(dir int, name string) (int, error) {
	if err := allow(dir, name); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// allow gives the owner all rights on a directory. It changes no other kind of file.
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
