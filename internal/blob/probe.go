package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// probeTag is never the tag of an object. It has the form of an S3 tag, because some stores check the form first.
const probeTag Tag = `"00000000000000000000000000000000"`

// tidyFor limits the removal of the probe's object. If the store hangs, it has most likely not stored the object.
const tidyFor = 3 * time.Second

// Probe tests with a temporary object whether the store supports conditional writes. An error means that the test
// could not run, most often because the store's address or credentials are wrong.
func Probe(ctx context.Context, s Store) (conditional bool, err error) {
	key := ".berth-probe-" + rand.Text()
	put := func(o PutOptions) error {
		text := []byte(key)
		_, err := s.Put(ctx, key, bytes.NewReader(text), int64(len(text)), o)
		return err
	}
	tidy := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyFor)
		defer cancel()
		return s.Delete(ctx, key)
	}
	defer func() {
		if ctx.Err() != nil {
			go func() { _ = tidy() }() // do not wait for a store that does not answer
		} else if gone := tidy(); err == nil {
			err = gone
		}
	}()
	if err := put(PutOptions{IfAbsent: true}); err != nil {
		return false, err
	}
	for _, o := range []PutOptions{{IfAbsent: true}, {IfMatch: probeTag}} {
		switch err := put(o); {
		case err == nil:
			return false, nil
		case !errors.Is(err, ErrPrecondition):
			return false, err
		}
	}
	return true, nil
}
