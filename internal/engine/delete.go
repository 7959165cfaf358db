package engine

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Delete ends a sandbox for good: from any state, leaving a tombstone that is never revived. It returns
// once nothing of it is left, or with the caller's context; the engine then goes on by itself, and the
// returned state says how far it came. A last version of the workspace is saved first, unless that is
// skipped; a save that goes on failing is given up in the end, and the history says so. The sandbox's owner
// is free when nothing is left.
func (e *Engine) Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := e.Store.Delete(ctx, tenant, id, skipSave, "deleted", actor)
	if err != nil {
		return s, err
	}
	if _, err = e.join(ctx, s, actor); err != nil && ctx.Err() == nil {
		e.Logger.WarnContext(ctx, "delete goes on in the background", "sandbox_id", id, "error", err)
	}
	now, err := e.Store.Sandbox(context.WithoutCancel(ctx), id)
	if err != nil {
		return s, err
	}
	return now, nil
}

// awaitGone waits until nothing of a deleted sandbox is left, so that its owner is free. It joins the
// delete and drives it if nothing else does. A delete that cannot be finished is tried again by the due
// scan, of the sandbox's own machine if it is pinned to another. After GoneWait the answer is an error of
// code deleting.
func (e *Engine) awaitGone(ctx context.Context, s sandbox.Sandbox, actor string) error {
	ctx, cancel := context.WithTimeout(ctx, e.GoneWait)
	defer cancel()
	if got, err := e.join(ctx, s, actor); err == nil {
		s = got
	}
	for poll := firstPoll; !s.Settled(); poll = min(2*poll, maxPoll) {
		select {
		case <-ctx.Done():
			return stillDeleting(s)
		case <-time.After(poll):
		}
		if got, err := e.Store.Sandbox(ctx, s.ID); err == nil {
			s = got
		} else if ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func stillDeleting(s sandbox.Sandbox) error {
	why := "which is still being deleted"
	if s.Failure != nil {
		why += ": " + s.Failure.Message
	}
	return sandbox.Errorf("bring sandbox", api.CodeDeleting, "%s has the sandbox %s, %s", s.Owner, s.ID, why)
}
