package keeper

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Bring makes the workspace what a version of another sandbox's, or of its own, is. What was here is saved
// before, and what was brought is saved as a new version: nothing is lost by it.
func (k *Keeper) Bring(ctx context.Context, s, from sandbox.Sandbox, version string) (sandbox.SyncMark, *workspace.Result, error) {
	if k.Plan(s).Off || !k.hasFiles(s) {
		return s.Synced, nil, sandbox.Errorf("restore version", api.CodeUnsupported, "the workspace of sandbox %s is not one that is saved", s.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*Timeout)
	defer cancel()
	var err error
	// A restore is a decision of its caller: it may replace most of the workspace, so the save before it may, too.
	save := SyncOptions{Note: "before version " + version + " was restored", AllowMassDelete: true}
	if s.Synced, _, err = k.Sync(ctx, s, save); err != nil {
		return s.Synced, nil, fmt.Errorf("save what is there first: %w", err)
	}
	t, err := k.tree(ctx, s, driver.ID(s.Instance))
	if err != nil {
		return s.Synced, nil, err
	}
	defer t.Close()
	base, err := k.base(ctx, k.Repo(s), s)
	if err != nil {
		return s.Synced, nil, err
	}
	theirs := k.Repo(from)
	known := base
	if theirs.Prefix != k.Repo(s).Prefix {
		known = nil // of another history
	}
	brought, err := theirs.Restore(ctx, t, known, version, workspace.PullOptions{})
	if err != nil {
		return s.Synced, nil, err
	}
	mark, res, err := k.push(ctx, s, t, base, SyncOptions{Note: "restored version " + brought.Version, AllowMassDelete: true})
	if err != nil {
		return s.Synced, nil, err
	}
	res.Stats.FilesDownloaded += brought.Stats.FilesDownloaded
	res.Stats.FilesDeleted = brought.Stats.FilesDeleted // the push saves the same deletions
	res.Stats.BytesTransferred += brought.Stats.BytesTransferred
	res.Stats.Duration += brought.Stats.Duration
	return mark, res, nil
}
