package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

const sweepHelp = `Compare the instances of every driver with the records, and repair the differences. The server does the
same at intervals. Needs an admin key of the tenant 'default'.

An instance without a record is an orphan: it is ended when it was seen for longer than any create
takes. An instance that its sandbox's record does not name is a stray; a record whose instance does not
exist is missing. In both cases the sandbox is inspected and settled. If the list of a driver cannot be
read to its end, nothing is done for that driver.

Exits with 0 unless something failed.`

func (a *app) sweep() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:     "sweep",
		Short:   "Find and remove leftovers of drivers",
		Long:    sweepHelp,
		Example: "  berth sweep --dry-run\n  berth sweep\n  berth sweep --json",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runSweep(ctx, dry) }),
	}
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "find, and change nothing")
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "the ids of the sandboxes of what was found")
	return a.Online(cmd)
}

func (a *app) runSweep(ctx context.Context, dry bool) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	spin := a.Spin("sweeping")
	sweep, err := c.Sweep(ctx, api.SweepRequest{DryRun: dry})
	spin.Stop()
	if err != nil {
		return c.Explain(err)
	}
	if a.JSON {
		err = ui.WriteJSON(a.Out, sweep)
	} else {
		err = a.showSweep(sweep)
	}
	if err == nil && sweepFailed(sweep) {
		return ui.ErrReported
	}
	return err
}

// found is a finding with the name of its driver.
type found struct {
	driver string
	api.SweepFinding
}

func (a *app) showSweep(sweep api.Sweep) error {
	var findings []found
	for _, d := range sweep.Drivers {
		for _, one := range d.Findings {
			findings = append(findings, found{d.Driver, one})
		}
	}
	if len(findings) > 0 {
		err := ui.Show(a.UI, ui.Items(findings, nil), ui.Listing[found]{
			Columns: []string{"DRIVER", "FOUND", "SANDBOX", "INSTANCE", "ACTION", "DETAIL"},
			Drop:    []string{"INSTANCE", "DRIVER"},
			Row: func(x found) []ui.Cell {
				return []ui.Cell{ui.Plain(x.driver), ui.Plain(x.Kind), ui.Plain(ui.OrDash(a.ShortID(x.SandboxID))), ui.Plain(ui.OrDash(x.Instance)),
					ui.Coloured(x.Action, actionColour(x.Action)), ui.Plain(ui.OrDash(x.Detail))}
			},
			ID: func(x found) string { return x.SandboxID },
		})
		if err != nil {
			return err
		}
	}
	for _, d := range sweep.Drivers {
		if d.Error != "" {
			a.Errorf("%s: %s; nothing was done about it", ui.Clean(d.Driver), ui.Clean(d.Error))
		}
	}
	if a.Quiet || len(findings) == 0 && sweepFailed(sweep) {
		return nil
	}
	_, err := fmt.Fprintln(a.Out, ui.Clean(sweepSummary(sweep, len(findings))))
	return err
}

func actionColour(action string) ui.Colour {
	switch action {
	case "failed":
		return ui.Red
	case "ended", "settled":
		return ui.Green
	}
	return ui.Yellow
}

// sweepSummary returns a summary: the findings, the removed records, and the number of instances.
func sweepSummary(sweep api.Sweep, findings int) string {
	parts := []string{"nothing to do"}
	switch {
	case findings > 0 && sweep.DryRun:
		parts = []string{ui.Plural(findings, "finding", "findings") + ", and nothing was changed (dry run)"}
	case findings > 0:
		parts = []string{ui.Plural(findings, "finding", "findings")}
	}
	if forgot := expiredRecords(sweep); forgot != "" {
		parts = append(parts, "forgot "+forgot)
	}
	return strings.Join(append(parts, instances(sweep)), "; ")
}

// expiredRecords returns the numbers of expired records that the sweep removed.
func expiredRecords(sweep api.Sweep) string {
	var all []string
	for _, x := range []struct {
		n         int64
		one, many string
	}{
		{sweep.Keys, "idempotency key", "idempotency keys"}, {sweep.Holds, "hold", "holds"}, {sweep.Places, "reserved place", "reserved places"},
	} {
		if x.n > 0 {
			all = append(all, ui.Plural(int(x.n), x.one, x.many))
		}
	}
	return strings.Join(all, ", ")
}

// instances returns the number of instances of each driver that has any.
func instances(sweep api.Sweep) string {
	var all []string
	for _, d := range sweep.Drivers {
		if d.Instances > 0 {
			all = append(all, driverSummary(d))
		}
	}
	return ui.First(strings.Join(all, ", "), "no instances")
}

// driverSummary returns the number of instances of a driver, and how many of them the sweep must not touch.
func driverSummary(d api.DriverSweep) string {
	text := ui.Plural(d.Instances, "instance", "instances") + " at " + d.Driver
	var alone []string
	if d.Foreign > 0 {
		alone = append(alone, fmt.Sprintf("%d of another Berth", d.Foreign))
	}
	if d.Unreadable > 0 {
		alone = append(alone, fmt.Sprintf("%d not Berth's", d.Unreadable))
	}
	if len(alone) == 0 {
		return text
	}
	return text + " (" + strings.Join(alone, ", ") + ", left alone)"
}

// sweepFailed reports whether a part of the sweep failed.
func sweepFailed(sweep api.Sweep) bool {
	for _, d := range sweep.Drivers {
		if d.Error != "" {
			return true
		}
		for _, one := range d.Findings {
			if one.Action == "failed" {
				return true
			}
		}
	}
	return false
}
