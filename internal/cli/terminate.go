package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/client"
)

func (f *frame) terminate() *cobra.Command {
	var end ending
	cmd := &cobra.Command{
		Use:   "terminate ID|NAME...",
		Short: "End sandboxes' machines; the next use makes them anew",
		Long: `End the machines of sandboxes, and the files in them. The sandboxes stay: id, name and settings are
kept, and the next use of one makes its machine anew. A terminal is asked first.

A server that can save workspaces does so first, and the next use brings the workspace back. Where it
cannot, or with --no-save, the files are lost.`,
		Example:           "  berth terminate scratch\n  berth terminate --yes --no-save scratch other",
		Args:              takes(1, -1, "the ID or NAME of at least one sandbox"),
		RunE:              run(func(ctx context.Context, refs []string) error { return f.runTerminate(ctx, end, refs) }),
		ValidArgsFunction: f.completeSandboxes(-1),
	}
	f.confirmed(cmd)
	end.flag(cmd)
	return f.online(cmd)
}

func (f *frame) runTerminate(ctx context.Context, end ending, refs []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.each(ctx, removal{
		question: "End the machine of sandbox %s? " + end.warning(),
		word:     "terminated",
		do: func(ctx context.Context, ref string) error {
			spin := f.spin("ending " + clean(ref))
			_, err := c.Sandboxes.Terminate(ctx, ref, end.options()...)
			spin.stop()
			if err != nil && ctx.Err() != nil {
				f.goesOn("berth get " + ref)
			}
			return c.known(ctx, ref, err)
		},
	}, refs)
}

// ending is how machines are ended.
type ending struct{ noSave, purge bool }

func (e *ending) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.noSave, "no-save", false, "do not save the workspace first")
}

func (e *ending) options() (opts []client.EndOption) {
	if e.noSave {
		opts = append(opts, client.SkipSave())
	}
	if e.purge {
		opts = append(opts, client.Purge())
	}
	return opts
}

// warning is what whoever ends a machine has to know.
func (e *ending) warning() string {
	if e.noSave {
		return "Its files are lost."
	}
	return "Files that the server cannot save are lost."
}
