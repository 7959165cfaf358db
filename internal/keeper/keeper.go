// Package keeper saves the workspaces of sandboxes and brings them back: it is the engine's Restorer.
//
// What a workspace was last the same as is in the sandbox's record ([sandbox.SyncMark]): the version, and
// the incarnation that restored or pushed it. Only that incarnation may push, or one that was born empty.
// An index of times and inodes beside the server's data makes it fast; without it everything is read
// again, and nothing else changes.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

// Plan is what a template says about one sandbox's workspace.
type Plan struct {
	Prefix string // of its versions, ends with a slash
	Off    bool   // it is not saved
	Empty  bool   // the first incarnation starts empty, whatever is stored
}

// Keeper keeps workspaces in one store.
type Keeper struct {
	Store         blob.Store
	Unconditional bool // the store does not do conditional writes; the sandbox's lease stands in
	Dir           string
	Plan          func(sandbox.Sandbox) Plan
	Drivers       map[string]driver.Driver
	Log           *slog.Logger
}

// Repo is where the versions of a sandbox's workspace are.
func (k *Keeper) Repo(s sandbox.Sandbox) *workspace.Repo {
	return &workspace.Repo{Store: k.Store, Prefix: k.Plan(s).Prefix, Unconditional: k.Unconditional, Log: k.Log}
}

// Restore brings the newest version into an instance that was just made, or what others have saved since
// into one that was stopped. A file that was changed here stays as it is.
func (k *Keeper) Restore(ctx context.Context, s sandbox.Sandbox, id driver.ID) (sandbox.SyncMark, error) {
	plan := k.Plan(s)
	if plan.Off {
		return s.Synced, nil
	}
	known := s.Synced.Incarnation == s.Incarnation
	born := sandbox.SyncMark{Incarnation: s.Incarnation}
	if plan.Empty && s.Synced.Version == "" && !known {
		return born, nil
	}
	t, err := k.tree(ctx, s, id)
	if err != nil {
		return s.Synced, err
	}
	defer t.Close()
	repo := k.Repo(s)
	var base *workspace.Index
	if known {
		if base, err = k.base(ctx, repo, s); err != nil {
			return s.Synced, err
		}
	}
	res, err := repo.Pull(ctx, t, base, workspace.PullOptions{})
	switch {
	case workspace.IsEmpty(err) && s.Synced.Version != "" && !known:
		return s.Synced, sandbox.Errorf("restore workspace", api.CodeBadManifest, "version %s was saved, and the store has no version at all", s.Synced.Version)
	case workspace.IsEmpty(err):
		return born, nil
	case err != nil:
		return s.Synced, err
	}
	k.keep(ctx, s, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: s.Incarnation}, nil
}

// Save saves the workspace as a new version, if anything has changed.
func (k *Keeper) Save(ctx context.Context, s sandbox.Sandbox) (sandbox.SyncMark, error) {
	mark, _, err := k.Sync(ctx, s, "")
	return mark, err
}

// Sync saves the workspace, and brings here what others have saved since. It is for the incarnation that
// restored the workspace or was born empty: a failed read must never become a destructive write.
func (k *Keeper) Sync(ctx context.Context, s sandbox.Sandbox, note string) (sandbox.SyncMark, *workspace.Result, error) {
	if k.Plan(s).Off {
		return s.Synced, new(workspace.Result), nil
	}
	if restored && s.Synced.Incarnation != s.Incarnation {
		return s.Synced, nil, sandbox.Errorf("save workspace", api.CodeSyncFailed, "this instance never had the workspace restored into it, so that saving it could only lose files")
	}
	t, err := k.tree(ctx, s, driver.ID(s.Instance))
	if err != nil {
		return s.Synced, nil, err
	}
	defer t.Close()
	repo := k.Repo(s)
	base, err := k.base(ctx, repo, s)
	if err != nil {
		return s.Synced, nil, err
	}
	o := workspace.PushOptions{Note: note}
	if o.Ignore, err = workspace.ReadIgnore(t); err != nil {
		return s.Synced, nil, err
	}
	res, err := repo.Sync(ctx, t, base, o)
	if err != nil {
		return s.Synced, nil, err
	}
	k.keep(ctx, s, t, res)
	return sandbox.SyncMark{Version: res.Version, Incarnation: s.Incarnation}, res, nil
}

// base is what the workspace was last the same as. The record is the authority; the index only makes it
// fast.
func (k *Keeper) base(ctx context.Context, repo *workspace.Repo, s sandbox.Sandbox) (*workspace.Index, error) {
	if s.Synced.Version == "" {
		return nil, nil
	}
	x, err := workspace.LoadIndex(k.index(s))
	if err != nil {
		k.log().WarnContext(ctx, "read the index of a workspace; everything is read again", "error", err)
	}
	if x != nil && x.ID == s.Synced.Version {
		return x, nil
	}
	return repo.BaseOf(ctx, s.Synced.Version)
}

// keep writes down what the workspace is now the same as: the index for us, the state file for people.
// Neither is needed, so that neither fails what was done.
func (k *Keeper) keep(ctx context.Context, s sandbox.Sandbox, t workspace.Tree, res *workspace.Result) {
	if err := res.Index.Save(k.index(s)); err != nil {
		k.log().WarnContext(ctx, "write the index of a workspace; the next save reads everything again", "error", err)
	}
	if res.State != nil {
		if err := workspace.WriteState(t, res.State); err != nil {
			k.log().WarnContext(ctx, "write the state file of a workspace", "error", err)
		}
	}
	for _, skipped := range res.Skipped {
		k.log().WarnContext(ctx, "a file cannot be saved", "path", skipped.Path, "why", skipped.Why)
	}
	for _, path := range res.Conflicts {
		k.log().WarnContext(ctx, "a file was changed on both sides and is kept twice", "path", path)
	}
}

func (k *Keeper) index(s sandbox.Sandbox) string { return filepath.Join(k.Dir, s.ID+".index") }

// Forget removes what is kept beside the record of a sandbox that ended.
func (k *Keeper) Forget(_ context.Context, s sandbox.Sandbox) error {
	if err := os.Remove(k.index(s)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (k *Keeper) log() *slog.Logger { return cmp.Or(k.Log, slog.New(slog.DiscardHandler)) }

// tree is the workspace of an instance.
type tree struct {
	workspace.Tree
	files.FS
}

func (k *Keeper) tree(ctx context.Context, s sandbox.Sandbox, id driver.ID) (*tree, error) {
	d, ok := driver.As[driver.Filer](k.Drivers[s.Spec.Driver])
	if !ok {
		return nil, sandbox.Errorf("reach workspace", api.CodeUnsupported, "the driver %s gives no access to files", s.Spec.Driver)
	}
	fs, err := d.Files(ctx, id, files.WorkingDir)
	if err != nil {
		return nil, err
	}
	t, ok := fs.(workspace.Tree)
	if !ok {
		_ = fs.Close()
		return nil, sandbox.Errorf("reach workspace", api.CodeUnsupported, "the driver %s gives no access to files as a tree", s.Spec.Driver)
	}
	return &tree{t, fs}, nil
}

// SaveTimeout bounds one save or restore.
const SaveTimeout = 30 * time.Minute
