package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) workspacePull() *cobra.Command {
	var many bool
	cmd := &cobra.Command{
		Use:   "pull DIR",
		Short: "Bring the newest version into a directory",
		Long: `Bring the newest version into a directory, which is made if it is not there. What was changed here
since the directory was last the same as a version stays as it is; a file that was changed on both
sides is kept twice, the saved one as NAME.conflict-VERSION.

Files that others deleted are deleted here, unless they were changed since. More than half of a
directory is not deleted without --allow-mass-delete, and nothing is where it is not known which
version the directory was last the same as.`,
		Example: `  berth workspace pull --store /backup/versions ~/project
  berth workspace pull --store s3://bucket --prefix project .`,
		Args:              takes(1, 1, "one directory"),
		ValidArgsFunction: folders,
	}
	h := f.byHand(cmd)
	massDelete(cmd, &many)
	cmd.RunE = run(func(ctx context.Context, args []string) error { return h.pull(ctx, args[0], many) })
	return cmd
}

func (h *byHand) pull(ctx context.Context, path string, many bool) error {
	if err := h.beginInto(ctx, path); err != nil {
		return err
	}
	defer h.tree.close()
	began := h.f.now()
	res, err := h.work(ctx, "pulling into", func(repo *workspace.Repo) (*workspace.Result, error) {
		return repo.Pull(ctx, h.tree.dir, h.base, workspace.PullOptions{Ignore: h.tree.ignore, AllowMassDelete: many})
	})
	if err != nil {
		return aboutVersion(ctx, h.repo, "", err)
	}
	return h.f.tellSync(res, pulled(res, h.base), h.f.now().Sub(began))
}

// massDelete adds the flag that lets what others saved delete most of a directory.
func massDelete(cmd *cobra.Command, many *bool) {
	cmd.Flags().BoolVar(many, "allow-mass-delete", false, "delete more than half of the files, if that is what the newest version says")
}
