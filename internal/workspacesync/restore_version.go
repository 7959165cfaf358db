package workspacesync

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// RestoreVersion makes the workspace equal to a version of this or another sandbox. It first saves the current
// files, and then saves the restored files as a new version, so that no files are lost.
func (s *Syncer) RestoreVersion(ctx context.Context, sb, from sandbox.Sandbox, version string) (sandbox.SyncMark, *workspace.Result, error) {
	if s.o.Plan(sb).Off || !s.hasFiles(sb) {
		return sb.Synced, nil, fault.Errorf("restore version", api.CodeUnsupported, "the workspace of sandbox %s is not one that is saved", sb.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*Timeout)
	defer cancel()
	var err error
	// A requested restore may replace most of the workspace. So may the save before it, which can merge other
	// versions.
	save := SyncOptions{Note: "before version " + version + " was restored", AllowMassDelete: true}
	if sb.Synced, _, err = s.Sync(ctx, sb, save); err != nil {
		return sb.Synced, nil, fmt.Errorf("save the current files first: %w", err)
	}
	mark, res := sb.Synced, (*workspace.Result)(nil)
	err = whileAnswering(ctx, checkWrites(s), func(ctx context.Context) (err error) {
		mark, res, err = s.replaceBy(ctx, sb, from, version)
		return err
	})
	return mark, res, err
}

// replaceBy makes the workspace equal to a version, and saves that as a new version.
func (s *Syncer) replaceBy(ctx context.Context, sb, from sandbox.Sandbox, version string) (sandbox.SyncMark, *workspace.Result, error) {
	t, err := s.tree(ctx, sb, driver.ID(sb.Instance))
	if err != nil {
		return sb.Synced, nil, err
	}
	defer t.Close()
	base, err := s.base(ctx, s.Repo(sb), sb)
	if err != nil {
		return sb.Synced, nil, err
	}
	theirs := s.Repo(from)
	known := base
	if theirs.Prefix != s.Repo(sb).Prefix {
		known = nil // base belongs to another history
	}
	brought, err := theirs.Restore(ctx, t, known, version, workspace.PullOptions{})
	if err != nil {
		return sb.Synced, nil, err
	}
	mark, res, err := s.push(ctx, sb, t, base, SyncOptions{Note: "restored version " + brought.Version, AllowMassDelete: true})
	if err != nil {
		return sb.Synced, nil, err
	}
	res.Stats.FilesDownloaded += brought.Stats.FilesDownloaded
	res.Stats.FilesDeleted = brought.Stats.FilesDeleted // the push saves the same deletions
	res.Stats.BytesTransferred += brought.Stats.BytesTransferred
	res.Stats.Duration += brought.Stats.Duration
	return mark, res, nil
}
