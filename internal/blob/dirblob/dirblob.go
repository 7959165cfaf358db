// Package dirblob keeps objects as files in a directory: the object store of a single machine.
//
// An object is a file that is never changed. [Store.Put] writes a file of its own in tmp, syncs it, and
// then gives it the object's name: by a hard link where there must be no object yet, which the kernel
// refuses to all but one; by a rename under a lock where one is replaced. The lock is the kernel's, so it
// holds between processes and dies with its holder. After a power loss an object is there whole or not at
// all, and there if Put had returned. What is left in tmp is swept when a store is opened.
//
//	objects/   the objects; see names.go for how a key becomes a path
//	tmp/       files that are being written
//	locks/     256 lock files; a key belongs to one of them
//	format     the version of this layout
//
// Symbolic links, pipes and devices below the directory are refused, whoever put them there. Several
// processes of one machine may use the directory at once; over a network file system they may not.
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

// format is what the file of that name says. A store of another format is refused.
const format = "berth objects 1\n"

// grace is how old a file in tmp must be to be taken for a dead writer's. A live one that is swept fails
// its Put, and nothing else.
const grace = time.Hour

// Store is a directory of objects. It is made by [Open].
type Store struct {
	path               string
	root, objects, tmp folder
	shelves            *shelves
	locks              *locks
	stamps             stamps
	batch              int // names of one folder that a list holds at once
	copying            sync.Pool
}

var _ blob.Store = (*Store)(nil)

// Open opens the directory's store, and makes it first where there is none: the directory must then be
// empty or missing.
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

// makeDir makes the directory, and sees that its name outlives a power loss.
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
		return nil // who may not read it has not made anything in it
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

// openAt opens the store in a directory that is open already.
func openAt(ctx context.Context, path string, root folder) (*Store, error) {
	s := &Store{path: path, root: root, batch: 1 << 17}
	s.copying.New = func() any { return new([copyBuffer]byte) }
	err := s.layOut()
	if err == nil {
		err = s.trial()
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

// layOut opens the folders, and makes them in a new store.
func (s *Store) layOut() error {
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
	s.shelves = newShelves(s.objects)
	return s.sign()
}

// checkFormat refuses a directory that is something else.
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

// sign writes the format last: a directory that has it has everything. Without it the folders are made
// durable once more, because whoever made them may have died before that.
func (s *Store) sign() error {
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

// Close frees the store's descriptors. Nothing may use the store any more; bodies that are being read go on.
func (s *Store) Close() error {
	if s.shelves != nil {
		s.shelves.close()
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

// String is the directory's path.
func (s *Store) String() string { return "file://" + s.path }
