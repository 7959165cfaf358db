package engine

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Reading is when the files of a version began to be read, by the database's clock, and whether processes ran then,
// which may have changed them since.
type Reading struct {
	Began time.Time
	Busy  bool
}

type marking func(ctx context.Context, s sandbox.Sandbox, now Reading) (mark sandbox.SyncMark, saved Reading, err error)

// Saving is Exclusively for what saves the workspace: with its success, changes made before it began are
// recorded as saved.
func (h *Handle) Saving(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.Marking(ctx, doing, func(ctx context.Context, s sandbox.Sandbox, now Reading) (sandbox.SyncMark, Reading, error) {
		mark, err := do(ctx, s)
		return mark, now, err
	})
}

// Exclusively does something to the sandbox's workspace while nobody else works on the sandbox: under its
// lease, so that it never meets a stop, an archive or another sync. What it returns is recorded as the
// version that the workspace is now the same as. The sandbox must have an instance, running or stopped.
func (h *Handle) Exclusively(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, false, func(ctx context.Context, s sandbox.Sandbox, _ Reading) (sandbox.SyncMark, Reading, error) {
		mark, err := do(ctx, s)
		return mark, Reading{}, err
	})
}

// Marking is Exclusively for a save that reads files at one time and is recorded at another. It gets the reading of
// now, and returns that of the files that are saved; a zero one means that nothing was saved.
func (h *Handle) Marking(ctx context.Context, doing string, do marking) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, true, do)
}

func (h *Handle) leased(ctx context.Context, doing string, saves bool, do marking) (sandbox.Sandbox, error) {
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

func (e *Engine) exclusively(ctx context.Context, grant store.Grant, asked time.Time, doing string, saves bool, do marking) (sandbox.Sandbox, error) {
	s := grant.Sandbox
	ctx, stop := e.renew(about(ctx, s), grant.Lease, asked)
	defer stop()
	if s.Deleted() || s.Instance == "" {
		return s, sandbox.Errorf(doing, api.CodeNotRunning, "sandbox %s has no instance: it is %s", s.ID, s.State)
	}
	now := Reading{Began: grant.Lease.Until.Add(-e.LeaseTTL), Busy: saves && e.processesRun(ctx, s)}
	working, unwatch := e.untilDiscarded(ctx, s.ID)
	mark, read, err := do(working, s, now)
	unwatch()
	switch {
	case err != nil && errors.Is(context.Cause(working), sandbox.ErrOvertaken):
		e := sandbox.Errorf(doing, api.CodeNotRunning, "sandbox %s is to end without a last save", s.ID)
		e.Hint = "It was deleted or terminated with --no-save since this began; 'berth get' shows its state."
		return s, e
	case err != nil:
		return s, err
	case read.Began.IsZero():
		return e.Store.Synced(ctx, grant.Lease, mark, time.Time{})
	}
	return e.saved(ctx, grant.Lease, mark, read.Began, read.Busy)
}
