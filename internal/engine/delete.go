package engine

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// Delete ends a sandbox for good: from any state, leaving a tombstone that is never revived. It returns
// once nothing of it is left, or with the caller's context; the engine then goes on by itself, and the
// returned state says how far it came. A last version of the workspace is saved first, unless that is
// skipped; a save that goes on failing is given up in the end, and the history says so.
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
