package dirblob

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// Delete removes objects; see [blob.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	folders := map[string][]string{}
	for _, key := range keys {
		if err := blob.CheckKey(key); err != nil {
			return err
		}
		at, _ := pathOf(key)
		folders[at] = append(folders[at], key)
	}
	// The work is concurrent because it mostly waits for the disk.
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(8)
	for at, keys := range folders {
		work.Go(func() error {
			if err := s.deleteIn(ctx, at, keys); err != nil {
				return s.explain("delete object", keys[0], err)
			}
			return nil
		})
	}
	return work.Wait()
}

// deleteIn removes objects of one folder and syncs the folder once.
func (s *Store) deleteIn(ctx context.Context, at string, keys []string) error {
	dir, err := s.folderAt(at)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()
	for _, key := range keys {
		if err := s.deleteOne(ctx, dir, key); err != nil {
			return err
		}
	}
	if err := dir.sync(); err != nil {
		return err
	}
	s.prune(at)
	return nil
}

// deleteOne removes one object. It holds the key's lock, because a concurrent replacement checks that the object
// exists.
func (s *Store) deleteOne(ctx context.Context, dir folder, key string) error {
	release, err := s.locks.take(ctx, key)
	if err != nil {
		return err
	}
	defer release()
	_, name := pathOf(key)
	err = dir.unlink(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// prune removes the folder and its parents as long as they are empty. A removed folder that reappears after a power
// failure is harmless.
func (s *Store) prune(at string) {
	for ; at != "" && at != "."; at = path.Dir(at) {
		above, err := s.folderAt(path.Dir(at))
		if err != nil {
			return
		}
		err = above.rmdir(path.Base(at))
		_ = above.close()
		if err != nil {
			return
		}
	}
}
