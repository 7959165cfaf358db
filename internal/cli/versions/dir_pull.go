package versions

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) workspacePull() *cobra.Command {
	var many bool
	cmd := &cobra.Command{
		Use:   "pull DIR",
		Short: "Update a directory with the newest version",
		Long: `Update a directory with the newest version; a missing directory is created. Local changes since the last
sync stay. A file that was changed on both sides is kept twice, the saved one as NAME.conflict-VERSION.

Files that others deleted are deleted here, unless they were changed since the last sync. More than half
of a directory is deleted only with --allow-mass-delete, and nothing is deleted if the directory was
never synced.`,
		Example: `  berth workspace pull --store /backup/versions ~/project
  berth workspace pull --store s3://bucket --prefix project .`,
		Args:              ui.Args(1, 1, "one directory"),
		ValidArgsFunction: completeDirs,
	}
	h := a.localSync(cmd)
	remote.MassDeleteFlag(cmd, &many)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error { return h.pull(ctx, args[0], many) })
	return cmd
}

func (h *localSync) pull(ctx context.Context, path string, many bool) error {
	if err := h.beginInto(ctx, path); err != nil {
		return err
	}
	defer h.tree.Close()
	began := h.a.Now()
	res, err := h.work(ctx, "pulling into", func(repo *workspace.Repo) (*workspace.Result, error) {
		return repo.Pull(ctx, h.tree.Dir, h.base, workspace.PullOptions{Ignore: h.tree.Ignore, AllowMassDelete: many})
	})
	if err != nil {
		return versionHint(ctx, h.repo, "", err)
	}
	return h.a.printLocalSync(res, pulled(res, h.base), h.a.Now().Sub(began))
}

func (a *app) workspaceSync() *cobra.Command {
	var many bool
	cmd := &cobra.Command{
		Use:   "sync DIR",
		Short: "Merge and save a directory",
		Long: `Merge versions that others saved since the last sync into a directory, and save local changes as a new
version. A file that was changed on both sides is kept twice: the local one, and the other one beside it
as NAME.conflict-VERSION.

Files that others deleted are deleted here, unless they were changed since the last sync, and more than
half of a directory only with --allow-mass-delete. In a directory that was never synced nothing is
deleted on either side.`,
		Example: `  berth workspace sync --store /backup/versions ~/project
  berth workspace sync --store s3://bucket/project --json .`,
		Args:              ui.Args(1, 1, "one directory"),
		ValidArgsFunction: completeDirs,
	}
	h := a.localSync(cmd)
	h.saveFlags(cmd)
	remote.MassDeleteFlag(cmd, &many)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		return h.save(ctx, args[0], "syncing", func(repo *workspace.Repo, o workspace.PushOptions) (*workspace.Result, error) {
			o.AllowMassDelete = many
			return repo.Sync(ctx, h.tree.Dir, h.base, o)
		})
	})
	return cmd
}
