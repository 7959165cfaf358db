package project

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) projectSync() *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "sync ID",
		Short: "Compare a project's record with its driver",
		Long: `Compare the record of a project's sandbox with the instance that its driver reports, and print what a
repair would do. --apply repairs it. The server finds and repairs such differences by itself, a little
later.

Exits with 0 if both agree, with 1 if they do not, and with 125 if the comparison failed.`,
		Example: "  berth project sync shop\n  berth project sync shop --apply\n  berth project sync shop --json",
		Args:    ui.Args(1, 1, oneProject),
		RunE: a.withProject(func(ctx context.Context, c *remote.Connection, id string) error {
			do := c.Projects.Sync
			if apply {
				do = c.Projects.Reconcile
			}
			s, err := do(ctx, id)
			if err != nil {
				return err
			}
			return a.showSync(s)
		}),
		ValidArgsFunction: a.CompleteProjects(1),
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "make the record and the driver agree")
	return a.Online(cmd)
}

func (a *app) showSync(s api.ProjectSync) (err error) {
	if a.JSON {
		err = ui.WriteJSON(a.Out, s)
	} else {
		verdict := a.Out.Paint(ui.Green, "agrees with its driver")
		if !s.Agrees {
			verdict = a.Out.Paint(ui.Red, "does not agree with its driver")
		}
		fmt.Fprintf(a.Out, "the record of %s %s\n", a.Out.Paint(ui.Bold, ui.Clean(s.ProjectID)), verdict)
		lines := []ui.Detail{{"recorded", strings.ToLower(s.Recorded)}, {"actual", s.Actual}, {"detail", s.Detail}, {"sandbox", s.SandboxID}}
		for _, step := range s.Would {
			lines = append(lines, ui.Detail{"would", step})
		}
		err = a.Details(lines)
	}
	if err == nil && !s.Agrees {
		return exitUnhealthy
	}
	return err
}
