package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// LocalDir is a directory on this machine that users save and restore with commands, possibly from several
// processes. It applies the rules that protect it: one sync at a time, no push over versions of others, and no
// accidental push into a store other than the last one.
type LocalDir struct {
	Path   string
	Dir    *Dir
	Ignore *Ignore

	warn  func(string)
	lock  *dirLock // nil for a directory opened by OpenLocal
	state *stateFile
	index func() (*Index, error)

	elsewhere bool // set by find: the directory was saved before, and the store has no version
}

// LocalOptions are the options of OpenLocal and LockLocal.
type LocalOptions struct {
	// Wait makes LockLocal wait while another process syncs the directory. Without it LockLocal returns CodeBusy.
	Wait bool
	// Waiting is called before such a wait with a description of the lock's holder. The function that it returns is
	// called after the wait. It may be nil.
	Waiting func(holder string) (done func())
	// Warn is called with warnings.
	Warn func(string)
}

// OpenLocal opens a directory without a lock. The caller must not change it.
func OpenLocal(path string, o LocalOptions) (*LocalDir, error) {
	dir, err := OpenDir(path)
	if err != nil {
		return nil, NoDirectory(path, err)
	}
	t := &LocalDir{Path: path, Dir: dir, warn: o.Warn}
	t.index = sync.OnceValues(func() (*Index, error) { return LoadIndex(t.indexPath()) })
	go t.index() // reads the index while this goroutine reads the state file
	if t.Ignore, err = ReadIgnore(dir); err == nil {
		t.state, err = readStateFile(path)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return t, nil
}

// NoDirectory turns the error of opening a directory into an error with a hint.
func NoDirectory(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(api.CodeNotADirectory, "Check the name; 'berth workspace restore' makes the directory it restores into.", "there is no directory %s", path)
	case errors.Is(err, syscall.ENOTDIR):
		return refuse(api.CodeNotADirectory, "Name the directory to work with.", "%s is not a directory", path)
	}
	return err
}

// LockLocal locks a directory and opens it for a sync. It reads the directory's state while it holds the lock.
func LockLocal(ctx context.Context, path string, o LocalOptions) (*LocalDir, error) {
	lock, err := lockDir(ctx, path, o)
	if err != nil {
		return nil, err
	}
	t, err := OpenLocal(path, o)
	if err != nil {
		lock.release()
		return nil, err
	}
	t.lock = lock
	return t, nil
}

// Close closes the directory and releases its lock.
func (t *LocalDir) Close() {
	_ = t.Dir.Close()
	if t.lock != nil {
		t.lock.release()
	}
}

// Is reports whether the directory was last equal to version v.
func (t *LocalDir) Is(v Version) bool { return t.state.is(v) }

func (t *LocalDir) indexPath() string { return filepath.Join(t.Path, StateFile+".idx") }

// refuse returns an error with a code and a hint.
func refuse(code api.Code, hint, format string, args ...any) error {
	e := fault.Errorf("", code, format, args...)
	e.Hint = hint
	return e
}
