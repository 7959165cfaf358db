package workspacesync

import (
	"context"
	"sync"
)

// uploadMode describes the priority of a writer of versions.
type uploadMode struct {
	urgent     bool // it cancels background saves
	background bool // urgent writers may cancel it; captures may too if it holds the lease
	leased     bool // it holds the sandbox's lease
}

// uploads allows one writer of a sandbox's versions at a time in this process.
type uploads struct {
	mu   sync.Mutex
	busy map[string]*upload
}

type upload struct {
	uploadMode
	cancel context.CancelFunc
	done   chan struct{}
}

// begin waits until no other writer of the sandbox is active. An urgent writer cancels a background save, which is
// retried later. The caller must call the returned function when it is done.
func (u *uploads) begin(ctx context.Context, sandbox string, how uploadMode) (context.Context, func(), error) {
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
		if how.urgent && other.background {
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

// interrupt cancels a background save that holds the sandbox's lease, because a capture must not wait for the
// object store.
func (u *uploads) interrupt(sandbox string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if other := u.busy[sandbox]; other != nil && other.background && other.leased {
		other.cancel()
	}
}
