package versions

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspacePush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push DIR",
		Short: "Save a directory as a new version",
		Long: `Save a directory as a new version. Only changes since the last version are read and sent; without
changes, no version is created.

Refused if the store has versions that the directory was not synced with: 'pull' merges them here first,
and 'sync' does both. A version is stored completely or not at all.`,
		Example: `  berth workspace push --store /backup/versions ~/project
  berth workspace push --store s3://bucket --prefix project --note "before the move" .
  berth workspace push --store /backup/versions -q .`,
		Args:              ui.Args(1, 1, "one directory"),
		ValidArgsFunction: completeDirs,
	}
	h := a.localSync(cmd)
	h.saveFlags(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		return h.save(ctx, args[0], "pushing", func(repo *workspace.Repo, o workspace.PushOptions) (*workspace.Result, error) {
			return h.tree.Push(ctx, repo, h.base, o)
		})
	})
	return cmd
}

// save saves a directory with do: push or sync.
func (h *localSync) save(ctx context.Context, path, what string, do func(*workspace.Repo, workspace.PushOptions) (*workspace.Result, error)) error {
	if err := h.begin(ctx, path, h.openToWrite); err != nil {
		return err
	}
	defer h.tree.Close()
	var missing error
	if !h.newHistory {
		missing = h.tree.ExpectHistory(h.repo, h.base)
	}
	began := h.a.Now()
	res, err := h.work(ctx, what, func(repo *workspace.Repo) (*workspace.Result, error) {
		return do(repo, workspace.PushOptions{Ignore: h.tree.Ignore, Note: h.note})
	})
	switch {
	case missing != nil && errors.Is(err, missing):
		return missing
	case err != nil:
		return storeHint(err)
	}
	return h.a.printLocalSync(res, saved(res), h.a.Now().Sub(began))
}
