package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspaceSync() *cobra.Command {
	var many bool
	cmd := &cobra.Command{
		Use:   "sync DIR",
		Short: "Bring a directory and its versions together",
		Long: `Bring here what others have saved since the directory was last the same as a version, and save what
was changed here as a new one. A file that was changed on both sides is kept twice: as it is here, and
beside it as NAME.conflict-VERSION.

Files that others deleted are deleted here, unless they were changed since, and more than half of a
directory only with --allow-mass-delete. A directory of which nothing is known is merged: nothing is
deleted on either side.`,
		Example: `  berth workspace sync --store /backup/versions ~/project
  berth workspace sync --store s3://bucket/project --json .`,
		Args:              takes(1, 1, "one directory"),
		ValidArgsFunction: folders,
	}
	h := f.byHand(cmd)
	h.saveFlags(cmd)
	massDelete(cmd, &many)
	cmd.RunE = run(func(ctx context.Context, args []string) error {
		return h.save(ctx, args[0], "syncing", func(repo *workspace.Repo, o workspace.PushOptions) (*workspace.Result, error) {
			o.AllowMassDelete = many
			return repo.Sync(ctx, h.tree.dir, h.base, o)
		})
	})
	return cmd
}
