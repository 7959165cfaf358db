package project

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// exitUnhealthy is the exit code of a failed check.
const exitUnhealthy = ui.ExitCode(1)

func (a *app) projectHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health ID",
		Short: "Check the health of a project's sandbox",
		Long: `Check now whether a project's sandbox runs and answers. Nothing is started.

Exits with 0 if it is healthy, with 1 if it is not, and with 125 if that is unknown.`,
		Example:           "  berth project health shop\n  berth project health shop -q || berth project ensure shop",
		Args:              ui.Args(1, 1, oneProject),
		RunE:              a.withProject(a.runProjectHealth),
		ValidArgsFunction: a.CompleteProjects(1),
	}
	cmd.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "print nothing; the exit code is the answer")
	return a.Online(cmd)
}

func (a *app) runProjectHealth(ctx context.Context, c *remote.Connection, id string) error {
	h, err := c.Projects.Health(ctx, id)
	switch {
	case err != nil:
		return err
	case a.Quiet:
	case a.JSON:
		err = ui.WriteJSON(a.Out, h)
	default:
		verdict := a.Out.Paint(ui.Green, "healthy")
		if !h.Healthy {
			verdict = a.Out.Paint(ui.Red, "not healthy")
		}
		fmt.Fprintf(a.Out, "%s is %s\n", a.Out.Paint(ui.Bold, ui.Clean(id)), verdict)
		err = a.Details([]ui.Detail{
			{"status", strings.ToLower(h.Status)}, {"actual", h.Actual}, {"detail", h.Detail}, {"sandbox", h.SandboxID}, {"checked", a.Time(h.CheckedAt)},
		})
	}
	if err == nil && !h.Healthy {
		return exitUnhealthy
	}
	return err
}
