package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/doctor"
)

func (f *frame) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a server on this machine needs, and say how to mend it",
		Long: `Check what a server on this machine needs: versions, directories, permissions, port, database, clock
and drivers, and whether sandboxes can be made here and how far they are kept apart. Each finding
that is not ok comes with its fix. It works with a server running and without one, and takes the
flags of 'berth serve'.

It ends with 0 when nothing failed and with 125 otherwise.`,
		Example: "  berth doctor\n  berth doctor --json\n  berth doctor --database-url postgres://berth@db/berth",
		Args:    takes(0, 0, ""),
	}
	load := f.configured(cmd)
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			cfg = nil // what is left of it is not what a server would be told
		}
		return f.showFindings(doctor.Run(ctx, doctor.Subject{
			Config: cfg, ConfigErr: err, Build: f.version().String(), Drivers: f.Drivers, Probe: f.Probe,
		}))
	})
	return cmd
}

// findings is what --json prints.
type findings struct {
	Status string      `json:"status"`
	Checks []api.Check `json:"checks"`
}

func (f *frame) showFindings(checks []api.Check) error {
	worst := doctor.Worst(checks)
	if err := f.printFindings(findings{worst, checks}); err != nil {
		return err
	}
	if worst == doctor.Failed {
		return errReported
	}
	return nil
}

func (f *frame) printFindings(found findings) error {
	if f.json {
		return writeJSON(f.out, found)
	}
	colours := map[string]colour{doctor.OK: green, doctor.Warning: yellow, doctor.Failed: red}
	counts, wide := map[string]int{}, 14
	for _, c := range found.Checks {
		wide = max(wide, len(c.Name))
	}
	for _, c := range found.Checks {
		counts[c.Status]++
		status := f.out.paint(colours[c.Status], fmt.Sprintf("%-8s", c.Status))
		fmt.Fprintf(f.out, "%s %-*s %s\n", status, wide, clean(c.Name), cleanLines(c.Detail))
		if c.Fix != "" {
			fmt.Fprintf(f.out, "%*s fix: %s\n", wide+9, "", clean(c.Fix))
		}
	}
	_, err := fmt.Fprintf(f.out, "%d ok, %d with warnings, %d failed\n", counts[doctor.OK], counts[doctor.Warning], counts[doctor.Failed])
	return err
}
