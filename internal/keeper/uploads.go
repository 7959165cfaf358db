package keeper

import (
	"context"
	"sync"
)

// as says how a writer of versions works.
type as struct {
	urgent bool // savers in the background give way to it
	yields bool // it gives way to others, and to captures if it is leased
	leased bool // it holds the sandbox's lease
}

// uploads sees that one writer of this process moves the versions of a sandbox at a time.
type uploads struct {
	mu   sync.Mutex
	busy map[string]*upload
}

type upload struct {
	as
	cancel context.CancelFunc
	done   chan struct{}
}

// enter waits until no other writer is at work. A saver in the background gives way to one that is urgent: its
// context ends. Nothing is lost by it, because it is tried again.
func (u *uploads) enter(ctx context.Context, sandbox string, how as) (context.Context, func(), error) {
	for {
		u.mu.Lock()
		other := u.busy[sandbox]
		if other == nil {
			held, cancel := context.WithCancel(ctx)
			own := &upload{how, cancel, make(chan struct{})}
			if u.busy == nil {
				u.busy = map[string]*upload{}
			}
			u.busy[sandbox] = own
			u.mu.Unlock()
			return held, func() {
				cancel()
				u.mu.Lock()
				delete(u.busy, sandbox)
				u.mu.Unlock()
				close(own.done)
			}, nil
		}
		if how.urgent && other.yields {
			other.cancel()
		}
		u.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx, nil, context.Cause(ctx)
		case <-other.done:
		}
	}
}

// interrupt makes a saver in the background that holds the sandbox's lease give way to a capture, which must not
// wait for the object store.
func (u *uploads) interrupt(sandbox string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if other := u.busy[sandbox]; other != nil && other.yields && other.leased {
		other.cancel()
	}
}
