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
	// Most conditions that do not hold show before anything is written.
	if o != (blob.PutOptions{}) {
		if err := s.holds(key, o); err != nil {
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

// checkPut refuses what makes no sense.
func checkPut(key string, size int64, o blob.PutOptions) error {
	switch {
	case size < 0:
		return fmt.Errorf("put object %s: a size of %d", key, size)
	case o.IfAbsent && o.IfMatch != "":
		return fmt.Errorf("put object %s: it cannot be both absent and in a state", key)
	}
	return blob.CheckKey(key)
}

// holds looks whether the object is as the options want it. Who acts on the answer holds the key's lock.
func (s *Store) holds(key string, o blob.PutOptions) error {
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

// publish gives a draft an object's name. A link makes a new one, without any lock: the kernel lets one
// writer win. Where there is an object, it is replaced under the key's lock.
func (s *Store) publish(ctx context.Context, d *draft, key string, o blob.PutOptions) error {
	if o.IfMatch == "" {
		err := s.place(key, func(to *shelf, name string) error { return s.tmp.link(d.name, to, name) })
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
	return s.place(key, func(to *shelf, name string) error {
		if err := s.holds(key, o); err != nil {
			return err
		}
		if err := s.tmp.rename(d.name, to, name); err != nil {
			return err
		}
		// What follows is waiting for the disk, in which others may go on.
		release()
		locked = false
		return nil
	})
}

// place does something in the key's folder and makes it outlive a power loss.
func (s *Store) place(key string, act func(to *shelf, name string) error) error {
	folder, name := pathOf(key)
	for try := 0; ; try++ {
		to, err := s.shelves.take(folder)
		if err != nil {
			return err
		}
		if err = act(to, name); err == nil {
			err = to.keep()
		} else if errors.Is(err, unix.ENOENT) {
			s.shelves.drop(to) // somebody removed the folder when it was empty
		}
		s.shelves.give(to)
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
