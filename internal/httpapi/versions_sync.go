package httpapi

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// mostNamed is how many files of one sync are named in its answer.
const mostNamed = 1000

type syncSandbox struct {
	ByRef
	Body *api.SyncWorkspace
}

func (a *Handler) syncSandbox(ctx context.Context, in *syncSandbox) (*reply[api.Synced], error) {
	if _, _, err := a.kept(ctx, in.ID); err != nil {
		return nil, err
	}
	h, s, err := a.open(ctx, in.ID)
	if err == nil && !s.Deleted() {
		err = runForChange(ctx, h, s) // one without an instance gets the newest version with its new one
	}
	if err != nil {
		return nil, err
	}
	var o keeper.SyncOptions
	if in.Body != nil {
		o = keeper.SyncOptions{Note: in.Body.Note, AllowMassDelete: in.Body.AllowMassDelete}
	}
	var res *workspace.Result
	s, err = h.Saving(ctx, "sync sandbox", func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		mark, res, err = a.Keeper.Sync(ctx, s, o)
		return mark, err
	})
	if err != nil {
		return nil, keeper.Told("sync sandbox", err)
	}
	return &reply[api.Synced]{syncedOut(s, res)}, nil
}

func syncedOut(s sandbox.Sandbox, res *workspace.Result) api.Synced {
	st := res.Stats
	out := api.Synced{
		SandboxID: s.ID, Version: s.Synced.Version, New: res.New,
		Stats: api.SyncStats{
			FilesDownloaded: st.FilesDownloaded, FilesUploaded: st.FilesUploaded, FilesDeleted: st.FilesDeleted,
			FilesSkipped: st.FilesSkipped, BytesTransferred: st.BytesTransferred, Duration: st.Duration,
		},
		Conflicts: []api.Conflict{}, Skipped: []api.SkippedFile{},
	}
	for _, c := range res.Conflicts[:min(len(res.Conflicts), mostNamed)] {
		out.Conflicts = append(out.Conflicts, api.Conflict(c))
	}
	for _, skipped := range res.Skipped[:min(len(res.Skipped), mostNamed)] {
		out.Skipped = append(out.Skipped, api.SkippedFile{Path: skipped.Path, Why: skipped.Why})
	}
	out.Flagged = append([]string{}, res.Flagged[:min(len(res.Flagged), mostNamed)]...)
	out.More = len(res.Conflicts) + len(res.Skipped) + len(res.Flagged) - len(out.Conflicts) - len(out.Skipped) - len(out.Flagged)
	return out
}

type pruneVersions struct {
	ByRef
	Body api.PruneVersions
}

func (a *Handler) pruneVersions(ctx context.Context, in *pruneVersions) (*reply[api.Pruned], error) {
	s, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body.KeepLast == 0 && in.Body.KeepDaily == 0 {
		return nil, invalidField("body", "say how many versions to keep: keep_last, keep_daily or both")
	}
	ctx, cancel := context.WithTimeout(ctx, keeper.Timeout)
	defer cancel()
	var done *workspace.Pruned
	prune := func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		done, err = repo.Prune(ctx, workspace.PruneOptions{Policy: workspace.Policy{Last: in.Body.KeepLast, Daily: in.Body.KeepDaily}, DryRun: in.Body.DryRun})
		return s.Synced, err
	}
	if a.Keeper.Unconditionally() && !in.Body.DryRun {
		h, _, openErr := a.open(ctx, in.ID)
		if openErr != nil {
			return nil, openErr
		}
		_, err = h.Exclusively(ctx, "prune versions", prune) // nothing else keeps a push away
	} else {
		_, err = prune(ctx, s)
	}
	if err != nil {
		return nil, keeper.Told("prune versions", err)
	}
	out := api.Pruned{DryRun: in.Body.DryRun, Kept: len(done.Kept), Removed: []api.Version{}, Objects: done.Packs, Bytes: done.Bytes, Waiting: done.Waiting}
	for _, v := range done.Removed {
		out.Removed = append(out.Removed, versionOut(v))
	}
	return &reply[api.Pruned]{out}, nil
}

func (a *Handler) verifyVersions(ctx context.Context, in *ByRef) (*reply[api.Verified], error) {
	_, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, keeper.Timeout)
	defer cancel()
	found, err := repo.Verify(ctx)
	if err != nil {
		return nil, keeper.Told("verify versions", err)
	}
	out := api.Verified{Versions: found.Versions, Files: found.Files, Bytes: found.Bytes, Problems: []api.VersionProblem{}}
	for _, p := range found.Problems[:min(len(found.Problems), mostNamed)] {
		out.Problems = append(out.Problems, api.VersionProblem{Version: p.Version, Path: p.Path, Why: p.Why})
	}
	out.More = len(found.Problems) - len(out.Problems)
	return &reply[api.Verified]{out}, nil
}
