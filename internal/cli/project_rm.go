package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (f *frame) projectRm() *cobra.Command {
	var end ending
	var sandboxOnly bool
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete projects and their sandboxes for good",
		Long: `Delete projects for good, each with its sandbox and everything in it. A terminal is asked first. The id
may be used again; what then comes is another project.

With --sandbox-only the machine ends and the project stays: its next use makes the machine anew, with
the workspace if the server could save it.`,
		Example: "  berth project rm shop\n  berth project rm --yes --sandbox-only shop\n  berth project ls -q | xargs berth project rm -y",
		Args:    takes(1, -1, "the ID of at least one project"),
		RunE: run(func(ctx context.Context, ids []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			if sandboxOnly {
				return f.each(ctx, f.projectTermination(c, end), ids)
			}
			return f.each(ctx, f.projectRemoval(c, end), ids)
		}),
		ValidArgsFunction: f.completeProjects(-1),
	}
	cmd.Flags().BoolVar(&sandboxOnly, "sandbox-only", false, "end only the machine; keep the project")
	f.confirmed(cmd)
	cmd.Flags().BoolVarP(&f.yes, "force", "f", false, "the same as --yes")
	end.flag(cmd)
	return f.online(cmd)
}

func (f *frame) projectRemoval(c *connection, end ending) removal {
	return removal{
		question: "Delete project %s, its sandbox and everything in it for good?",
		word:     "deleted",
		do: func(ctx context.Context, id string) error {
			p, err := c.Projects.Get(ctx, id)
			if err == nil {
				err = f.delete(ctx, c, deletion{id, p.SandboxID, func(ctx context.Context) error {
					return c.Projects.Delete(ctx, id, end.options()...)
				}})
			}
			return c.knownProject(ctx, id, err)
		},
	}
}

func (f *frame) projectTermination(c *connection, end ending) removal {
	return removal{
		question: "End the machine of project %s? " + end.warning(),
		word:     "terminated",
		do: func(ctx context.Context, id string) error {
			spin := f.spin("ending " + clean(id))
			_, err := c.Projects.Terminate(ctx, id, end.options()...)
			spin.stop()
			if err != nil && ctx.Err() != nil {
				f.goesOn("berth project get " + id)
			}
			return c.knownProject(ctx, id, err)
		},
	}
}
