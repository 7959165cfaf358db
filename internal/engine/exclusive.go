package engine

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Reading describes the read of files for a save.
type Reading struct {
	Began time.Time // start of the read by the database's clock; zero: nothing was saved
	Busy  bool      // processes ran at the start, and may have changed files since
}

// marking saves files and returns the mark and the reading of the saved files. The argument now is the reading that
// starts with the call.
type marking func(ctx context.Context, s sandbox.Sandbox, now Reading) (mark sandbox.SyncMark, saved Reading, err error)

// Saving is like Exclusively, for a do that saves the workspace. If do succeeds, changes from before its start are
// recorded as saved.
func (h *Handle) Saving(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.Marking(ctx, doing, func(ctx context.Context, s sandbox.Sandbox, now Reading) (sandbox.SyncMark, Reading, error) {
		mark, err := do(ctx, s)
		return mark, now, err
	})
}

// Exclusively calls do under the sandbox's lease, so that its work on the workspace never overlaps a stop, an archive
// or another sync. It records the mark that do returns as the version that the workspace now equals. The sandbox must
// have an instance, running or stopped.
func (h *Handle) Exclusively(ctx context.Context, doing string, do func(context.Context, sandbox.Sandbox) (sandbox.SyncMark, error)) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, false, func(ctx context.Context, s sandbox.Sandbox, _ Reading) (sandbox.SyncMark, Reading, error) {
		mark, err := do(ctx, s)
		return mark, Reading{}, err
	})
}

// Marking is like Saving, for a save that may have read the files earlier than the call. Changes from before the Began
// of the reading that do returns are recorded as saved.
func (h *Handle) Marking(ctx context.Context, doing string, do marking) (sandbox.Sandbox, error) {
	return h.leased(ctx, doing, true, do)
}

// leased waits for the sandbox's lease and calls exclusively with it.
func (h *Handle) leased(ctx context.Context, doing string, saves bool, do marking) (sandbox.Sandbox, error) {
	if h.readOnly {
		return sandbox.Sandbox{}, fault.Errorf(doing, api.CodeUnsupported, "the sandbox is open for reading only")
	}
	h.just.Store(nil) // discard the cached row, which may be out of date
	s, err := h.record(ctx)
	if err == nil {
		err = h.e.checkHost(ctx, s)
	}
	if err != nil {
		return s, err
	}
	defer h.e.working()()
	for poll := firstPoll; ; poll = min(2*poll, maxPoll) {
		asked := time.Now()
		grant, err := h.e.opts.Store.Lease(ctx, store.LeaseSandbox, s.ID, h.e.opts.Holder)
		if err != nil {
			return s, err
		}
		if grant.OK {
			return h.e.exclusively(ctx, grant, asked, doing, saves, do)
		}
		select {
		case <-ctx.Done():
			return s, waitTimeout(ctx)
		case <-time.After(poll):
		}
	}
}

// exclusively calls do under the lease of grant and records the mark and the reading that do returns. If saves is false,
// the reading passed to do has Busy false.
func (e *Engine) exclusively(ctx context.Context, grant store.Grant, asked time.Time, doing string, saves bool, do marking) (sandbox.Sandbox, error) {
	s := grant.Sandbox
	ctx, stop := e.renew(about(ctx, s), grant.Lease, asked)
	defer stop()
	if s.Deleted() || s.Instance == "" {
		return s, fault.Errorf(doing, api.CodeNotRunning, "sandbox %s has no instance: it is %s", s.ID, s.State)
	}
	now := Reading{Began: grant.Lease.Until.Add(-e.opts.LeaseTTL), Busy: saves && e.processesRun(ctx, s)}
	e.savesBegun.Add(1) // count this save before it reads files
	working, unwatch := e.untilDiscarded(ctx, s.ID)
	mark, read, err := do(working, s, now)
	unwatch()
	switch {
	case err != nil && errors.Is(context.Cause(working), sandbox.ErrOvertaken):
		e := fault.Errorf(doing, api.CodeNotRunning, "sandbox %s is to end without a last save", s.ID)
		e.Hint = "It was deleted or terminated with --no-save since this began; 'berth get' shows its state."
		return s, e
	case err != nil:
		return s, err
	case read.Began.IsZero():
		return e.opts.Store.RecordSync(ctx, grant.Lease, mark, time.Time{})
	}
	return e.saved(ctx, grant.Lease, mark, read.Began, read.Busy)
}
