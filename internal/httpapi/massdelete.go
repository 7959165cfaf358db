package httpapi

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
)

// pulling are the problems of a start that pulls a shared workspace.
var pulling = []api.Code{api.CodeMassDelete, api.CodeSyncFailed, api.CodeBlobUnreachable}

// MassDelete is the parameter of requests that may start a sandbox whose workspace others have changed.
type MassDelete struct {
	AllowMassDelete bool `query:"allow_mass_delete" doc:"Bring in what other sandboxes saved to the same workspace even if that deletes more than half of its files; without it that is sync_mass_delete"`
}

// merging makes a verb sync the workspace before it acts, if the caller allowed it to delete most of the files.
// The start after it finds nothing to pull.
func (a *Handler) merging(do func(Handle, context.Context) (sandbox.Sandbox, error), m MassDelete) func(Handle, context.Context) (sandbox.Sandbox, error) {
	if !m.AllowMassDelete {
		return do
	}
	return func(h Handle, ctx context.Context) (sandbox.Sandbox, error) {
		if s, err := a.merge(ctx, h); err != nil {
			return s, err
		}
		return do(h, ctx)
	}
}

// merge syncs the workspace of a sandbox, deleting as many files as its newest version says. A sandbox without
// an instance has nothing to merge: its next instance gets the newest version as it is.
func (a *Handler) merge(ctx context.Context, h Handle) (sandbox.Sandbox, error) {
	if a.Keeper == nil {
		return sandbox.Sandbox{}, nil
	}
	s, err := h.Saving(ctx, "sync sandbox", func(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
		mark, _, err := a.Keeper.Sync(ctx, s, keeper.SyncOptions{AllowMassDelete: true})
		return mark, err
	})
	if s.Instance == "" && sandbox.CodeOf(err) == api.CodeNotRunning {
		err = nil
	}
	return s, keeper.Told("sync sandbox", err)
}

// mergeOwn is merge for an ensure. The caller names the sandbox by how it is found; one that does not exist yet
// has nothing to merge.
func (a *Handler) mergeOwn(ctx context.Context, m MassDelete, find func(context.Context) (sandbox.Sandbox, error)) error {
	if !m.AllowMassDelete || a.Open == nil {
		return nil
	}
	s, err := find(ctx)
	switch {
	case sandbox.CodeOf(err) == api.CodeNotFound:
		return nil
	case err != nil || s.State == sandbox.Running:
		return err
	}
	h, _, err := a.open(ctx, s.ID)
	if err == nil {
		_, err = a.merge(ctx, h)
	}
	return err
}
