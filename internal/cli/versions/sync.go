package versions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/workspace"
)

func (a *app) sync() *cobra.Command {
	var want api.SyncWorkspace
	cmd := &cobra.Command{
		Use:   "sync ID|NAME",
		Short: "Save a sandbox's workspace now",
		Long: `Save the workspace of a sandbox as a new version. If nothing changed, no version is created. A running
or stopped sandbox keeps its state; an archived or terminated one is started first. The end of a sandbox
saves its workspace without this command.

If sandboxes share a workspace, versions that others saved are merged first. If that would delete more
than half of the files here, it is refused without --allow-mass-delete.

A .berthignore file in the workspace, in the syntax of .gitignore, lists files to leave out.`,
		Example:           "  berth sync scratch\n  berth sync scratch --note 'before the upgrade'",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error { return a.runSync(ctx, args[0], want) })
	cmd.Flags().StringVar(&want.Note, "note", "", "`TEXT` that is kept with the version")
	ui.Offer(cmd, "note", []string{})
	remote.MassDeleteFlag(cmd, &want.AllowMassDelete)
	a.QuietFlag(cmd, "the version")
	return a.Online(cmd)
}

func (a *app) runSync(ctx context.Context, ref string, want api.SyncWorkspace) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	spin := a.Spin("saving " + ui.Clean(ref))
	res, err := c.Sandboxes.Sync(ctx, ref, want)
	spin.Stop()
	if err != nil {
		return c.ExistingHint(ctx, ref, err)
	}
	what := "saved version " + res.Version + counts(statsOf(res.Stats))
	switch {
	case res.Version == "":
		what = "there is nothing in it to save"
	case !res.New:
		what = "nothing changed since version " + res.Version + counts(statsOf(res.Stats))
	}
	return a.printSync(res, res, what)
}

// printSync prints the result of a sync of a sandbox's workspace, and warns of conflicts and of files that were not
// saved.
func (a *app) printSync(res api.Synced, doc any, what string) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, doc)
	}
	kept := &workspace.Result{Flagged: res.Flagged}
	for _, c := range res.Conflicts {
		kept.Conflicts = append(kept.Conflicts, workspace.Conflict(c))
	}
	for _, s := range res.Skipped {
		kept.Skipped = append(kept.Skipped, workspace.Skipped{Path: s.Path, Why: s.Why})
	}
	a.warnKept(kept)
	if a.Quiet {
		return a.Line(res.Version)
	}
	_, err := fmt.Fprintln(a.Out, ui.Clean(what))
	return err
}

func statsOf(s api.SyncStats) workspace.Stats {
	return workspace.Stats{
		FilesDownloaded: s.FilesDownloaded, FilesUploaded: s.FilesUploaded, FilesDeleted: s.FilesDeleted,
		FilesSkipped: s.FilesSkipped, BytesTransferred: s.BytesTransferred, Duration: s.Duration,
	}
}
