package driver

import (
	"context"
	"fmt"
	"iter"
)

// WithLimit limits the concurrent calls of d to n. Further calls wait for a place, or for the end of
// their context. A List gives its place back while the caller handles an entry, so that the caller's
// loop can call the driver too. If n is below 1, there is no limit.
func WithLimit(d Driver, n int) Driver {
	if n < 1 {
		return d
	}
	return &decorated{base: d, policy: limit{kind: d.Kind(), places: make(chan struct{}, n)}}
}

type limit struct {
	kind   string
	places chan struct{} // one element for each call in progress
}

func (l limit) call(ctx context.Context, op string, fn func() error) error {
	if err := l.enter(ctx, op); err != nil {
		return err
	}
	defer l.leave()
	return fn()
}

func (l limit) enter(ctx context.Context, op string) error {
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to %s on driver %s: %w", op, l.kind, ctx.Err())
	}
}

func (l limit) leave() { <-l.places }

func (l limit) list(ctx context.Context, open func() iter.Seq2[Status, error]) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if err := l.enter(ctx, OpList); err != nil {
			yield(Status{}, err)
			return
		}
		inside := true
		defer func() {
			if inside {
				l.leave()
			}
		}()
		for st, err := range open() {
			l.leave()
			inside = false
			if !yield(st, err) {
				return
			}
			if err := l.enter(ctx, OpList); err != nil {
				yield(Status{}, err)
				return
			}
			inside = true
		}
	}
}
