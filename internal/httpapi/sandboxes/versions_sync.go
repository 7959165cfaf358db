package sandboxes

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

// mostNamed is the maximum number of problems in one answer.
const mostNamed = 1000

type syncSandbox struct {
	access.ByRef
	Body *api.SyncWorkspace
}

func (a *handlers) syncSandbox(ctx context.Context, in *syncSandbox) (*rest.Reply[api.Synced], error) {
	if _, _, err := a.findRepo(ctx, in.ID); err != nil {
		return nil, err
	}
	h, s, err := a.Handle(ctx, in.ID)
	if err == nil && !s.Deleted() {
		err = access.RunForChange(ctx, h, s) // a new instance gets the newest version
	}
	if err == nil {
		err = replaceLost(ctx, h)
	}
	if err != nil {
		return nil, err
	}
	var o workspacesync.SyncOptions
	if in.Body != nil {
		o = workspacesync.SyncOptions{Note: in.Body.Note, AllowMassDelete: in.Body.AllowMassDelete}
	}
	var res *workspace.Result
	s, err = h.Saving(ctx, "sync sandbox", func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		mark, res, err = a.Syncer.Sync(ctx, s, o)
		return mark, err
	})
	if err != nil {
		return nil, workspacesync.WrapError("sync sandbox", err)
	}
	return &rest.Reply[api.Synced]{Body: workspacesync.Show(s, res)}, nil
}

// replaceLost opens the workspace before it is saved or restored: if the instance of a running sandbox is gone, it is
// replaced, and the header of the answer says what was lost. It does not start a stopped sandbox.
func replaceLost(ctx context.Context, h *engine.Handle) error {
	root, err := h.Files(ctx, files.WorkingDir)
	if fault.CodeOf(err) == api.CodeUnsupported { // the syncer has another way to the files
		return nil
	}
	if err != nil {
		return access.GuestError("open workspace", err)
	}
	access.SetHandleNotice(ctx, h)
	return root.Close()
}

type pruneVersions struct {
	access.ByRef
	Body api.PruneVersions
}

func (a *handlers) pruneVersions(ctx context.Context, in *pruneVersions) (*rest.Reply[api.Pruned], error) {
	s, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body.KeepLast == 0 && in.Body.KeepDaily == 0 {
		return nil, exchange.InvalidField("body", "say how many versions to keep: keep_last, keep_daily or both")
	}
	ctx, cancel := context.WithTimeout(ctx, workspacesync.Timeout)
	defer cancel()
	var done *workspace.Pruned
	prune := func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		done, err = repo.Prune(ctx, workspace.PruneOptions{Policy: workspace.Policy{Last: in.Body.KeepLast, Daily: in.Body.KeepDaily}, DryRun: in.Body.DryRun})
		return s.Synced, err
	}
	if a.Syncer.LacksConditionalWrites() && !in.Body.DryRun {
		h, _, openErr := a.Handle(ctx, in.ID)
		if openErr != nil {
			return nil, openErr
		}
		_, err = h.Exclusively(ctx, "prune versions", prune) // only the lease prevents a save at the same time
	} else {
		_, err = prune(ctx, s)
	}
	if err != nil {
		return nil, workspacesync.WrapError("prune versions", err)
	}
	out := api.Pruned{DryRun: in.Body.DryRun, Kept: len(done.Kept), Removed: []api.Version{}, Objects: done.Packs, Bytes: done.Bytes, Waiting: done.Waiting}
	for _, v := range done.Removed {
		out.Removed = append(out.Removed, versionOut(v))
	}
	return &rest.Reply[api.Pruned]{Body: out}, nil
}

func (a *handlers) verifyVersions(ctx context.Context, in *access.ByRef) (*rest.Reply[api.Verified], error) {
	_, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, workspacesync.Timeout)
	defer cancel()
	found, err := repo.Verify(ctx)
	if err != nil {
		return nil, workspacesync.WrapError("verify versions", err)
	}
	out := api.Verified{Versions: found.Versions, Files: found.Files, Bytes: found.Bytes, Problems: []api.VersionProblem{}}
	for _, p := range found.Problems[:min(len(found.Problems), mostNamed)] {
		out.Problems = append(out.Problems, api.VersionProblem{Version: p.Version, Path: p.Path, Why: p.Why})
	}
	out.More = len(found.Problems) - len(out.Problems)
	return &rest.Reply[api.Verified]{Body: out}, nil
}
