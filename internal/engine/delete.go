package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Delete ends a sandbox in any state and leaves a tombstone, which is never revived. It returns when instance and
// volume are gone, or when the caller's context ends; then the engine continues in the background, and the returned
// sandbox has the state so far. A last version of the workspace is saved first, unless skipSave is set. If that save
// fails for too long, the delete continues without it and records this in the history. The owner can have a new
// sandbox once instance and volume are gone.
func (e *Engine) Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := e.opts.Store.Delete(ctx, tenant, id, skipSave, "deleted", actor)
	if err != nil {
		return s, err
	}
	if _, err = e.ensurer.settleShared(ctx, s, actor); err != nil && ctx.Err() == nil {
		e.opts.Logger.WarnContext(ctx, "delete goes on in the background", "sandbox_id", id, "error", err)
	}
	now, err := e.opts.Store.Sandbox(context.WithoutCancel(ctx), id)
	if err != nil {
		return s, err
	}
	return now, nil
}

// awaitGone waits until instance and volume of a deleted sandbox are gone, so that its owner can have a new sandbox. It
// works on the delete itself, unless another holder does. After the request's GoneWait it returns an error of code deleting. The scan
// for due rows retries the delete, on the host that the sandbox is pinned to.
func (e *Engine) awaitGone(ctx context.Context, s sandbox.Sandbox, r Request) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.GoneWait, e.opts.GoneWait))
	defer cancel()
	got, away := e.ensurer.settleShared(ctx, s, r.Actor)
	if away == nil {
		s = got
	}
	for poll := firstPoll; !s.Settled(); poll = min(2*poll, maxPoll) {
		select {
		case <-ctx.Done():
			return deletingError(s, away)
		case <-time.After(poll):
		}
		if got, err := e.opts.Store.Sandbox(ctx, s.ID); err == nil {
			s = got
		} else if ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// deletingError returns the error of code deleting for a sandbox. It says what the delete waits for: away is the error
// of the work on it here, which may be that another machine has the sandbox.
func deletingError(s sandbox.Sandbox, away error) error {
	why, hint := "which is still being deleted", ""
	switch machine, _ := errors.AsType[*fault.Error](away); {
	case s.Failure != nil:
		why += ": " + s.Failure.Message
	case machine != nil && machine.Code == api.CodeWrongHost:
		why, hint = why+": "+machine.Err.Error(), machine.Hint
	}
	e := fault.Errorf("run sandbox", api.CodeDeleting, "%s has the sandbox %s, %s", s.Owner, s.ID, why)
	e.Hint = hint
	return e
}
