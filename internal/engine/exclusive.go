package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Saving is Exclusively for what saves the workspace: with its success, changes made before it began are
// recorded as saved.
func (h *Handle) Saving(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, true, do)
}

// Exclusively does something to the sandbox's workspace while nobody else works on the sandbox: under its
// lease, so that it never meets a stop, an archive or another sync. What it returns is recorded as the
// version that the workspace is now the same as. The sandbox must have an instance, running or stopped.
func (h *Handle) Exclusively(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, false, do)
}

func (h *Handle) leased(ctx context.Context, doing string, saves bool, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	h.just.Store(nil)
	s, err := h.record(ctx)
	if err == nil {
		err = h.e.here(ctx, s)
	}
	if err != nil {
		return s, err
	}
	defer h.e.working()()
	for poll := firstPoll; ; poll = min(2*poll, maxPoll) {
		asked := time.Now()
		grant, err := h.e.Store.Lease(ctx, store.LeaseSandbox, s.ID, h.e.Holder)
		if err != nil {
			return s, err
		}
		if grant.OK {
			return h.e.exclusively(ctx, grant, asked, doing, saves, do)
		}
		select {
		case <-ctx.Done():
			return s, waited(ctx)
		case <-time.After(poll):
		}
	}
}

func (e *Engine) exclusively(ctx context.Context, grant store.Grant, asked time.Time, doing string, saves bool, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	s := grant.Sandbox
	ctx, stop := e.renew(about(ctx, s), grant.Lease, asked)
	defer stop()
	if s.Deleted() || s.Instance == "" {
		return s, sandbox.Errorf(doing, api.CodeNotRunning, "sandbox %s has no instance: it is %s", s.ID, s.State)
	}
	busy := saves && e.processesRun(ctx, s)
	mark, err := do(ctx, s)
	switch {
	case err != nil:
		return s, err
	case !saves:
		return e.Store.Synced(ctx, grant.Lease, mark, time.Time{})
	}
	return e.saved(ctx, grant.Lease, mark, grant.Lease.Until.Add(-e.LeaseTTL), busy)
}
