package store

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Leases is where a lease is kept.
type Leases interface {
	Renew(ctx context.Context, l Lease) error
	Release(ctx context.Context, l Lease) error
}

// Keep renews the lease until stop is called, which also gives it up. The context ends when the lease is
// lost or has run out because it could not be renewed, so that a holder which may no longer write stops
// acting, too. Taken is when the lease was asked for: by our own clock it ends no earlier.
func Keep(ctx context.Context, leases Leases, l Lease, ttl time.Duration, taken time.Time) (held context.Context, stop func() error) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			err := Extend(held, leases, l, ttl)
			if err == nil {
				taken = asked
			} else if errors.Is(err, sandbox.ErrStale) || time.Since(taken) > ttl {
				cancel(sandbox.Errorf("renew lease", api.CodeStale, "the lease of %s %s is lost: %w", l.Kind, l.ID, err))
			}
		}
	}()
	return held, func() error {
		cancel(nil)
		<-done
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
		defer cancel()
		return leases.Release(ctx, l)
	}
}

// Extend renews the lease once, in no more time than is left for another try.
func Extend(ctx context.Context, leases Leases, l Lease, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, ttl/3)
	defer cancel()
	return leases.Renew(ctx, l)
}
