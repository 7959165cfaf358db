package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/doctor"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for a server",
		Long: `Check what a server on this machine needs: versions, directories, permissions, port, database, clock and
drivers, and whether sandboxes can be created here and how well they are isolated. Each finding that is
not ok has a fix. The command works with or without a running server, and takes the flags of 'berth
serve'.

Exits with 0 if nothing failed, otherwise with 125.`,
		Example: "  berth doctor\n  berth doctor --json\n  berth doctor --database-url postgres://berth@db/berth",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			cfg = nil // a server would not start with it
		}
		return a.showFindings(doctor.Run(ctx, doctor.Subject{
			Config: cfg, ConfigErr: err, Server: a.Getenv("BERTH_SERVER"), Build: a.Build, Drivers: a.Drivers, Probe: a.Probe,
		}))
	})
	return cmd
}

// findings is the JSON output of berth doctor.
type findings struct {
	Status string      `json:"status"`
	Checks []api.Check `json:"checks"`
}

func (a *app) showFindings(checks []api.Check) error {
	worst := doctor.Worst(checks)
	if err := a.printFindings(findings{worst, checks}); err != nil {
		return err
	}
	if worst == doctor.Failed {
		return ui.ErrReported
	}
	return nil
}

func (a *app) printFindings(found findings) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, found)
	}
	colours := map[string]ui.Colour{doctor.OK: ui.Green, doctor.Warning: ui.Yellow, doctor.Failed: ui.Red}
	counts, wide := map[string]int{}, 14
	for _, c := range found.Checks {
		wide = max(wide, len(c.Name))
	}
	for _, c := range found.Checks {
		counts[c.Status]++
		status := a.Out.Paint(colours[c.Status], fmt.Sprintf("%-8s", c.Status))
		fmt.Fprintf(a.Out, "%s %-*s %s\n", status, wide, ui.Clean(c.Name), a.Hang(ui.CleanLines(c.Detail), wide+10))
		if c.Fix != "" {
			fmt.Fprintf(a.Out, "%*s fix: %s\n", wide+9, "", a.Hang(ui.Clean(c.Fix), wide+15))
		}
	}
	_, err := fmt.Fprintf(a.Out, "%d ok, %d with warnings, %d failed\n", counts[doctor.OK], counts[doctor.Warning], counts[doctor.Failed])
	return err
}
