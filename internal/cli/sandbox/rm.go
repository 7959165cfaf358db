package sandbox

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) rm() *cobra.Command {
	var end remote.EndFlags
	cmd := &cobra.Command{
		Use:     "rm ID|NAME...",
		Aliases: []string{"delete"},
		Short:   "Delete sandboxes for good",
		Long: `Delete sandboxes for good, with all their files. At a terminal it asks first.

A server that can save workspaces saves them first, unless --no-save is given. Saved versions can be
restored into a new sandbox for a while ('berth create --from ID'); --purge removes them, too.

One failure does not stop the other deletes. If a delete takes longer than half a minute, the command
prints why it waits; the server continues the delete.`,
		Example:           "  berth rm scratch\n  berth rm --yes scratch other\n  berth ls -q | xargs berth rm -y",
		Args:              ui.Args(1, -1, "the ID or NAME of at least one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, refs []string) error { return a.runRm(ctx, end, refs) }),
		ValidArgsFunction: a.CompleteSandboxes(-1),
	}
	a.YesFlag(cmd)
	cmd.Flags().BoolVarP(&a.Yes, "force", "f", false, "the same as --yes")
	end.Flag(cmd)
	cmd.Flags().BoolVar(&end.Purge, "purge", false, "remove the saved versions, too, also those of one that was deleted before")
	return a.Online(cmd)
}

func (a *app) runRm(ctx context.Context, end remote.EndFlags, refs []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.RemoveEach(ctx, remote.Removal{
		Question: "Delete sandbox %s and everything in it for good?",
		Word:     "deleted",
		Printed:  true,
		Find:     findSandbox(c),
		Do: func(ctx context.Context, ref string) error {
			return c.WholeIDHint(ctx, ref, a.DeleteSandbox(ctx, c, ref, end.Options()))
		},
	}, refs)
}

// findSandbox returns Find for a command that takes names and whole ids.
func findSandbox(c *remote.Connection) func(context.Context, string) error {
	return func(ctx context.Context, ref string) error {
		_, err := c.Sandboxes.Get(ctx, ref)
		return c.WholeIDHint(ctx, ref, err)
	}
}

func (a *app) terminate() *cobra.Command {
	var end remote.EndFlags
	cmd := &cobra.Command{
		Use:   "terminate ID|NAME...",
		Short: "End the instances of sandboxes",
		Long: `End the instances of sandboxes and remove their files. The sandboxes stay: id, name and settings are
kept, and the next use creates a new instance. At a terminal it asks first.

A server that can save workspaces saves them first, and the next use restores them. If it cannot save,
or with --no-save, the files are lost.`,
		Example:           "  berth terminate scratch\n  berth terminate --yes --no-save scratch other",
		Args:              ui.Args(1, -1, "the ID or NAME of at least one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, refs []string) error { return a.runTerminate(ctx, end, refs) }),
		ValidArgsFunction: a.CompleteSandboxes(-1),
	}
	a.YesFlag(cmd)
	end.Flag(cmd)
	return a.Online(cmd)
}

func (a *app) runTerminate(ctx context.Context, end remote.EndFlags, refs []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.RemoveEach(ctx, remote.Removal{
		Question: "End the machine of sandbox %s? " + end.Warning(),
		Word:     "terminated",
		Find:     findSandbox(c),
		Do: func(ctx context.Context, ref string) error {
			spin := a.Spin("ending " + ui.Clean(ref))
			_, err := c.Sandboxes.Terminate(ctx, ref, end.Options()...)
			spin.Stop()
			if err != nil && ctx.Err() != nil {
				a.NoteServerContinues("berth get " + ref)
			}
			return c.WholeIDHint(ctx, ref, err)
		},
	}, refs)
}
