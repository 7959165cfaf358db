package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// exitUnfit is how a command ends that was asked whether something is well, and it is not.
const exitUnfit = exited(1)

func (f *frame) projectHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health ID",
		Short: "Check now whether a project's sandbox is healthy",
		Long: `Check now whether a project's sandbox runs and everything in it answers. Nothing is started for it.

It ends with 0 if it is healthy, with 1 if not, and with 125 if nobody can say.`,
		Example:           "  berth project health shop\n  berth project health shop -q || berth project ensure shop",
		Args:              takes(1, 1, oneProject),
		RunE:              f.onProject(f.runProjectHealth),
		ValidArgsFunction: f.completeProjects(1),
	}
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing; the exit code tells")
	return f.online(cmd)
}

func (f *frame) runProjectHealth(ctx context.Context, c *connection, id string) error {
	h, err := c.Projects.Health(ctx, id)
	switch {
	case err != nil:
		return err
	case f.quiet:
	case f.json:
		err = writeJSON(f.out, h)
	default:
		verdict := f.out.paint(green, "healthy")
		if !h.Healthy {
			verdict = f.out.paint(red, "not healthy")
		}
		fmt.Fprintf(f.out, "%s is %s\n", f.out.paint(bold, clean(id)), verdict)
		err = f.details([]detail{
			{"status", h.Status}, {"actual", h.Actual}, {"detail", h.Detail}, {"sandbox", h.SandboxID}, {"checked", f.when(h.CheckedAt)},
		})
	}
	if err == nil && !h.Healthy {
		return exitUnfit
	}
	return err
}
