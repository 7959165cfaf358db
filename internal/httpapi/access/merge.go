package access

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspacesync"
)

// PullProblems are the problems of a start that pulls a shared workspace.
var PullProblems = []api.Code{api.CodeMassDelete, api.CodeSyncFailed, api.CodeBlobUnreachable}

// MassDelete is the parameter of requests that may start a sandbox whose workspace others have changed.
type MassDelete struct {
	AllowMassDelete bool `query:"allow_mass_delete" doc:"Merge versions of other sandboxes even if that deletes more than half of the workspace's files; otherwise the answer is sync_mass_delete"`
}

// Merging returns do with a sync of the workspace before it, if the caller allowed mass deletes. A start in do then
// has nothing left to merge.
func (a *Sandboxes) Merging(do func(*engine.Handle, context.Context) (sandbox.Sandbox, error), m MassDelete) func(*engine.Handle, context.Context) (sandbox.Sandbox, error) {
	if !m.AllowMassDelete {
		return do
	}
	return func(h *engine.Handle, ctx context.Context) (sandbox.Sandbox, error) {
		if s, err := a.merge(ctx, h); err != nil {
			return s, err
		}
		return do(h, ctx)
	}
}

// merge syncs the workspace of a sandbox, with as many deletions as needed. A sandbox without an instance has nothing
// to merge: its next instance gets the newest version.
func (a *Sandboxes) merge(ctx context.Context, h *engine.Handle) (sandbox.Sandbox, error) {
	if a.Syncer == nil {
		return sandbox.Sandbox{}, nil
	}
	s, err := h.Saving(ctx, "sync sandbox", func(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
		mark, _, err := a.Syncer.Sync(ctx, s, workspacesync.SyncOptions{AllowMassDelete: true})
		return mark, err
	})
	if s.Instance == "" && fault.CodeOf(err) == api.CodeNotRunning {
		err = nil
	}
	return s, workspacesync.WrapError("sync sandbox", err)
}

// MergeBeforeStart is merge for requests that create or start the sandbox that find returns. A sandbox that does not
// exist yet has nothing to merge.
func (a *Sandboxes) MergeBeforeStart(ctx context.Context, m MassDelete, find func(context.Context) (sandbox.Sandbox, error)) error {
	if !m.AllowMassDelete {
		return nil
	}
	s, err := find(ctx)
	switch {
	case fault.CodeOf(err) == api.CodeNotFound:
		return nil
	case err != nil || s.State == sandbox.Running:
		return err
	}
	h, _, err := a.Handle(ctx, s.ID)
	if err == nil {
		_, err = a.merge(ctx, h)
	}
	return err
}
