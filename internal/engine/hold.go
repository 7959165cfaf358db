package engine

import (
	"context"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/store"
)

const (
	holdTTL     = 2 * time.Minute  // lifetime of a hold; it is renewed after half of it
	holdTimeout = 10 * time.Second // limit of one write of a hold
	// holdDelay is the time after which HoldLate holds the sandbox. Most work ends sooner. Until then no hold is needed,
	// because timers wait longer than this after a use.
	holdDelay = 5 * time.Second
)

// Hold keeps idle timers from acting on the sandbox until release is called. If this process ends, the hold expires.
func (h *Handle) Hold(ctx context.Context, kind string) (release func()) {
	if h.find(ctx) != nil || h.id.Load() == nil {
		return func() {} // without a sandbox there is nothing to hold
	}
	id := *h.id.Load()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ref, done := store.NewID(), make(chan struct{})
	hold := func() {
		ctx, cancel := context.WithTimeout(ctx, holdTimeout)
		defer cancel()
		if err := h.e.opts.Store.Hold(ctx, id, kind, ref, time.Now().Add(holdTTL)); err != nil {
			h.e.opts.Logger.WarnContext(ctx, "hold sandbox", "sandbox_id", id, "kind", kind, "error", err)
		}
	}
	hold()
	go func() {
		defer close(done)
		tick := time.NewTicker(holdTTL / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				hold()
			}
		}
	}()
	return func() {
		cancel()
		<-done
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
		defer cancel()
		if err := h.e.opts.Store.DropHold(last, id, kind, ref); err != nil {
			h.e.opts.Logger.WarnContext(last, "drop a hold; it runs out by itself", "sandbox_id", id, "error", err)
		}
	}
}

// HoldLate holds the sandbox after holdDelay, unless done is called earlier. The hold ends when done is called.
func (h *Handle) HoldLate(ctx context.Context, kind string) (done func()) {
	var mu sync.Mutex
	over, release := false, func() {}
	timer := time.AfterFunc(holdDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			release = h.Hold(ctx, kind)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		release()
	}
}
