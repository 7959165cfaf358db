package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/blob"
)

// Put writes an object; see [blob.Store].
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64, o blob.PutOptions) (blob.Tag, error) {
	const op = "put object"
	if err := checkPut(key, size, o); err != nil {
		return "", err
	}
	// This check finds most failing conditions before any bytes are written.
	if o != (blob.PutOptions{}) {
		if err := s.checkConditions(key, o); err != nil {
			return "", s.explain(op, key, err)
		}
	}
	d, err := s.write(ctx, r, size)
	if err != nil {
		return "", s.explain(op, key, err)
	}
	defer d.discard()
	if err := s.publish(ctx, d, key, o); err != nil {
		return "", s.explain(op, key, err)
	}
	return d.tag, nil
}

// checkPut checks the arguments of Put.
func checkPut(key string, size int64, o blob.PutOptions) error {
	switch {
	case size < 0:
		return fmt.Errorf("put object %s: a size of %d", key, size)
	case o.IfAbsent && o.IfMatch != "":
		return fmt.Errorf("put object %s: it cannot be both absent and in a state", key)
	}
	return blob.CheckKey(key)
}

// checkConditions returns ErrPrecondition if the object does not meet the conditions. For a final answer the caller
// must hold the key's lock.
func (s *Store) checkConditions(key string, o blob.PutOptions) error {
	folder, name := pathOf(key)
	st, err := s.objects.stat(join(folder, name))
	switch {
	case errors.Is(err, unix.ENOENT) && o.IfMatch != "":
		return blob.ErrPrecondition
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case o.IfAbsent || o.IfMatch != "" && o.IfMatch != tagOf(st):
		return blob.ErrPrecondition
	}
	return nil
}

// publish gives a draft an object's name. A hard link creates a new object without a lock, because the kernel lets
// only one writer succeed. An existing object is replaced under the key's lock.
func (s *Store) publish(ctx context.Context, d *draft, key string, o blob.PutOptions) error {
	if o.IfMatch == "" {
		err := s.rename(key, func(to *dirHandle, name string) error { return s.tmp.link(d.name, to, name) })
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EEXIST):
			return err
		case o.IfAbsent:
			return blob.ErrPrecondition
		}
	}
	return s.replace(ctx, d, key, o)
}

func (s *Store) replace(ctx context.Context, d *draft, key string, o blob.PutOptions) error {
	release, err := s.locks.take(ctx, key)
	if err != nil {
		return err
	}
	locked := true
	defer func() {
		if locked {
			release()
		}
	}()
	return s.rename(key, func(to *dirHandle, name string) error {
		if err := s.checkConditions(key, o); err != nil {
			return err
		}
		if err := s.tmp.rename(d.name, to, name); err != nil {
			return err
		}
		// The lock is not needed for the sync that follows.
		release()
		locked = false
		return nil
	})
}

// rename calls act with the key's folder and name, and then syncs the folder's names.
func (s *Store) rename(key string, act func(to *dirHandle, name string) error) error {
	folder, name := pathOf(key)
	for try := 0; ; try++ {
		to, err := s.dirs.take(folder)
		if err != nil {
			return err
		}
		if err = act(to, name); err == nil {
			err = to.syncNames()
		} else if errors.Is(err, unix.ENOENT) {
			s.dirs.drop(to) // the folder was removed concurrently, because it was empty
		}
		s.dirs.give(to)
		if !errors.Is(err, unix.ENOENT) || try == maxTries {
			return err
		}
	}
}

func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}
