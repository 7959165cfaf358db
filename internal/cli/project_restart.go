package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (f *frame) projectRestart() *cobra.Command {
	return f.online(&cobra.Command{
		Use:               "restart ID...",
		Short:             "Stop projects' sandboxes and start them again",
		Long:              "Stop the sandboxes of projects and start them again. Everything that runs in them ends, and their files\nstay.",
		Example:           "  berth project restart shop",
		Args:              takes(1, -1, "the ID of at least one project"),
		RunE:              run(f.runProjectRestart),
		ValidArgsFunction: f.completeProjects(-1),
	})
}

func (f *frame) runProjectRestart(ctx context.Context, ids []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.inTurn(ctx, act{"restarting", "restarted", "berth project get ", func(ctx context.Context, id string) (any, error) {
		p, err := c.Projects.Restart(ctx, id)
		return p, c.aboutProject(ctx, id, err)
	}}, ids)
}
