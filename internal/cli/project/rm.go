package project

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) projectRm() *cobra.Command {
	var end remote.EndFlags
	var sandboxOnly bool
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete projects and their sandboxes for good",
		Long: `Delete projects for good, each with its sandbox and all its files. At a terminal it asks first. The id
can be used again, for a new project.

With --sandbox-only the instance ends and the project stays: its next use creates a new instance, with
the workspace if the server could save it.`,
		Example: "  berth project rm shop\n  berth project rm --yes --sandbox-only shop\n  berth project ls -q | xargs berth project rm -y",
		Args:    ui.Args(1, -1, "the ID of at least one project"),
		RunE: ui.Run(func(ctx context.Context, ids []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if sandboxOnly {
				return a.RemoveEach(ctx, a.projectTermination(c, end), ids)
			}
			return a.RemoveEach(ctx, a.projectRemoval(c, end), ids)
		}),
		ValidArgsFunction: a.CompleteProjects(-1),
	}
	cmd.Flags().BoolVar(&sandboxOnly, "sandbox-only", false, "end only the machine; keep the project")
	a.YesFlag(cmd)
	cmd.Flags().BoolVarP(&a.Yes, "force", "f", false, "the same as --yes")
	end.Flag(cmd)
	return a.Online(cmd)
}

func (a *app) projectRemoval(c *remote.Connection, end remote.EndFlags) remote.Removal {
	return remote.Removal{
		Question: "Delete project %s, its sandbox and everything in it for good?",
		Word:     "deleted",
		Find:     findProject(c),
		Do: func(ctx context.Context, id string) error {
			p, err := c.Projects.Get(ctx, id)
			if err == nil {
				err = a.Delete(ctx, c, remote.Deletion{Ref: id, ID: p.SandboxID, Do: func(ctx context.Context) error {
					return c.Projects.Delete(ctx, id, end.Options()...)
				}})
			}
			return c.ExistingProjectHint(ctx, id, err)
		},
	}
}

func findProject(c *remote.Connection) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		_, err := c.Projects.Get(ctx, id)
		return c.ExistingProjectHint(ctx, id, err)
	}
}

func (a *app) projectTermination(c *remote.Connection, end remote.EndFlags) remote.Removal {
	return remote.Removal{
		Question: "End the machine of project %s? " + end.Warning(),
		Word:     "terminated",
		Find:     findProject(c),
		Do: func(ctx context.Context, id string) error {
			spin := a.Spin("ending " + ui.Clean(id))
			_, err := c.Projects.Terminate(ctx, id, end.Options()...)
			spin.Stop()
			if err != nil && ctx.Err() != nil {
				a.NoteServerContinues("berth project get " + id)
			}
			return c.ExistingProjectHint(ctx, id, err)
		},
	}
}
