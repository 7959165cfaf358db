package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/workspace"
)

func (f *frame) sync() *cobra.Command {
	var want api.SyncWorkspace
	cmd := &cobra.Command{
		Use:   "sync ID|NAME",
		Short: "Save a sandbox's workspace now",
		Long: `Save the workspace of a sandbox as a new version. When nothing has changed there is none. A running or
stopped sandbox stays as it is; an archived or terminated one is brought back first. The end of a sandbox saves it by itself.

Where sandboxes share a workspace, what others saved comes here first. If that would delete more than half
of the files here, it is refused without --allow-mass-delete.

A .berthignore file in the workspace, in the syntax of .gitignore, says what is left out.`,
		Example:           "  berth sync scratch\n  berth sync scratch --note 'before the upgrade'",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	cmd.RunE = run(func(ctx context.Context, args []string) error { return f.runSync(ctx, args[0], want) })
	cmd.Flags().StringVar(&want.Note, "note", "", "`TEXT` that is kept with the version")
	offer(cmd, "note", []string{})
	massDelete(cmd, &want.AllowMassDelete)
	f.quietly(cmd, "the version")
	return f.online(cmd)
}

func (f *frame) runSync(ctx context.Context, ref string, want api.SyncWorkspace) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	spin := f.spin("saving " + clean(ref))
	res, err := c.Sandboxes.Sync(ctx, ref, want)
	spin.stop()
	if err != nil {
		return c.known(ctx, ref, err)
	}
	what := "saved version " + res.Version + counts(statsOf(res.Stats))
	switch {
	case res.Version == "":
		what = "there is nothing in it to save"
	case !res.New:
		what = "nothing changed since version " + res.Version + counts(statsOf(res.Stats))
	}
	return f.tellSynced(res, res, what)
}

// tellSynced says what came of a sync, and names what was kept twice and what could not be saved.
func (f *frame) tellSynced(res api.Synced, doc any, what string) error {
	if f.json {
		return writeJSON(f.out, doc)
	}
	kept := &workspace.Result{Flagged: res.Flagged}
	for _, c := range res.Conflicts {
		kept.Conflicts = append(kept.Conflicts, workspace.Conflict(c))
	}
	for _, s := range res.Skipped {
		kept.Skipped = append(kept.Skipped, workspace.Skipped{Path: s.Path, Why: s.Why})
	}
	f.tellKept(kept)
	if f.quiet {
		return f.line(res.Version)
	}
	_, err := fmt.Fprintln(f.out, clean(what))
	return err
}

func statsOf(s api.SyncStats) workspace.Stats {
	return workspace.Stats{
		FilesDownloaded: s.FilesDownloaded, FilesUploaded: s.FilesUploaded, FilesDeleted: s.FilesDeleted,
		FilesSkipped: s.FilesSkipped, BytesTransferred: s.BytesTransferred, Duration: s.Duration,
	}
}
