package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/workspace"
)

// worktree is a directory that is saved or restored.
type worktree struct {
	f      *frame
	path   string
	dir    *workspace.Dir
	lock   *treeLock // nil while it is only looked at
	ignore *workspace.Ignore
	state  *stateFile // nil: it has none
	index  func() (*workspace.Index, error)

	elsewhere bool // it has one, and the store has no version at all
}

// openTree opens a directory to look at it.
func (f *frame) openTree(path string) (*worktree, error) {
	dir, err := workspace.OpenDir(path)
	if err != nil {
		return nil, noDirectory(path, err)
	}
	t := &worktree{f: f, path: path, dir: dir}
	t.index = sync.OnceValues(func() (*workspace.Index, error) { return workspace.LoadIndex(t.indexPath()) })
	go t.index() // beside the state file, which takes as long
	if t.ignore, err = workspace.ReadIgnore(dir); err == nil {
		t.state, err = readStateFile(path)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return t, nil
}

// noDirectory says why something is not a directory to work with.
func noDirectory(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusal(api.CodeNotADirectory, "Check the name; 'berth workspace restore' makes the directory it restores into.", "there is no directory %s", path)
	case errors.Is(err, syscall.ENOTDIR):
		return refusal(api.CodeNotADirectory, "Name the directory to work with.", "%s is not a directory", path)
	}
	return err
}

// lockedTree opens a directory to sync it, once nobody else does.
func (f *frame) lockedTree(ctx context.Context, path string, wait bool) (*worktree, error) {
	lock, err := f.lockTree(ctx, path, wait)
	if err != nil {
		return nil, err
	}
	t, err := f.openTree(path) // what it says is read under the lock
	if err != nil {
		lock.release()
		return nil, err
	}
	t.lock = lock
	return t, nil
}

func (t *worktree) close() {
	_ = t.dir.Close()
	if t.lock != nil {
		t.lock.release()
	}
}

func (t *worktree) indexPath() string { return filepath.Join(t.path, workspace.StateFile+".idx") }
