package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// probeTag is no object's tag. It has the form of S3's, because some stores look at that first.
const probeTag Tag = `"00000000000000000000000000000000"`

// tidyFor bounds the removal of what a probe wrote. A store that hangs has most likely taken nothing.
const tidyFor = 3 * time.Second

// Probe tries whether the store keeps the promise of conditional writes, on a key of its own that it
// removes again. An error means that it could not be tried, most often because the store's address or
// credentials are wrong.
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
			go func() { _ = tidy() }() // a store that does not answer is not waited for again
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
