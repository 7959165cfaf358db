// Package dirblob keeps objects as files in a directory. It is the object store of a single machine.
//
// An object is a file that never changes. [Store.Put] writes a temporary file in tmp, syncs it, and then gives it
// the object's name. If no object may exist, it uses a hard link, which the kernel grants to only one writer. To
// replace an object, it uses a rename under a lock. This is a kernel lock: it works between processes, and the
// kernel releases it when its holder ends. After a power failure an object is complete or absent; it is present if
// Put had returned. Files that a crash leaves in tmp are removed when a store is opened.
//
//	objects/   the objects; see names.go for the mapping of keys to paths
//	tmp/       files that are being written
//	locks/     256 lock files; each key uses one of them
//	format     the version of this layout
//
// Symbolic links, pipes and devices below the directory are refused. Several processes of one machine may use the
// directory at once. It must not be on a network file system.
package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// Names in the store's directory.
const (
	objectsName = "objects"
	tmpName     = "tmp"
	locksName   = "locks"
	formatName  = "format"
)

// format is the content of the format file. Open refuses a store with another format.
const format = "berth objects 1\n"

// grace is the age from which a file in tmp counts as abandoned. If it is removed although its writer is still
// running, that Put fails.
const grace = time.Hour

// Store keeps objects in a directory. [Open] returns one.
type Store struct {
	path               string
	root, objects, tmp folder
	dirs               *dirHandles
	locks              *locks
	stamps             stamps
	batch              int // maximum number of a folder's names that a list holds in memory
	copying            sync.Pool
}

var _ blob.Store = (*Store)(nil)

// Open opens the store in a directory. If the directory is missing or empty, Open creates a store.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	if err := makeDir(path); err != nil {
		return nil, explain("open object store", path, err)
	}
	root, err := openDisk(path)
	if err != nil {
		return nil, explain("open object store", path, err)
	}
	return openAt(ctx, path, root)
}

// makeDir creates the directory and its parents, and syncs their names to disk.
func makeDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, os.ErrPermission) {
		return nil // a caller that cannot read the parent did not create a directory in it
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

// openAt opens the store in a directory that is already open.
func openAt(ctx context.Context, path string, root folder) (*Store, error) {
	s := &Store{path: path, root: root, batch: 1 << 17}
	s.copying.New = func() any { return new([copyBuffer]byte) }
	err := s.createLayout()
	if err == nil {
		err = s.probe()
	}
	if err == nil {
		err = s.sweep(ctx, time.Now().Add(-grace))
	}
	if err != nil {
		_ = s.Close()
		return nil, explain("open object store", path, err)
	}
	return s, nil
}

// createLayout opens the store's folders. It creates them in a new store.
func (s *Store) createLayout() error {
	if err := s.checkFormat(); err != nil {
		return err
	}
	for _, name := range []string{objectsName, tmpName, locksName} {
		if err := s.root.mkdir(name); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	var err error
	if s.objects, err = s.root.sub(objectsName); err != nil {
		return err
	}
	if s.tmp, err = s.root.sub(tmpName); err != nil {
		return err
	}
	locks, err := s.root.sub(locksName)
	if err != nil {
		return err
	}
	s.locks = newLocks(locks)
	s.dirs = newDirHandles(s.objects)
	return s.writeFormat()
}

// checkFormat returns an error if the directory is neither a store nor empty.
func (s *Store) checkFormat() error {
	text, err := s.readFormat()
	switch {
	case err == nil && text == format:
		return nil
	case err == nil:
		return damaged("it has the format %.40q, and this Berth knows %q; use the Berth that wrote it, or another directory", text, format)
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	for names, err := range s.root.names() {
		if err != nil {
			return err
		}
		for _, name := range names {
			switch name {
			case objectsName, tmpName, locksName, formatName, "lost+found":
			default:
				return damaged("it is not empty and no object store: it has %.60q; name an empty directory", name)
			}
		}
	}
	return nil
}

func (s *Store) readFormat() (string, error) {
	f, _, err := s.root.open(formatName)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text := make([]byte, len(format)+1)
	n, err := f.ReadAt(text, 0)
	if err == io.EOF {
		err = nil
	}
	return string(text[:n]), err
}

// writeFormat writes the format file if it is missing. It is written last, so a directory with it is complete.
// Without it the directory is synced again, because an earlier creator may have crashed before the sync.
func (s *Store) writeFormat() error {
	if _, err := s.readFormat(); err == nil {
		return nil
	}
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	if _, err := d.file.Write([]byte(format)); err != nil {
		return err
	}
	if err := d.finish(s.stamps.next()); err != nil {
		return err
	}
	if err := s.tmp.link(d.name, s.root, formatName); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return s.root.sync()
}

// Close closes the store's descriptors. The store must not be used afterwards. Bodies that are open can still be
// read.
func (s *Store) Close() error {
	if s.dirs != nil {
		s.dirs.close()
	}
	if s.locks != nil {
		_ = s.locks.folder.close()
	}
	for _, f := range []folder{s.objects, s.tmp} {
		if f != nil {
			_ = f.close()
		}
	}
	return s.root.close()
}

// String returns the address of the store: file:// and the path of its directory.
func (s *Store) String() string { return "file://" + s.path }
