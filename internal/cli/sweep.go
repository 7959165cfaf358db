package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

const sweepHelp = `Compare what every driver has with what the records say, and tidy up. The server does the same by
itself, every so often. It needs an admin key of the tenant 'default'.

An instance that no record names is an orphan: it is ended once it was seen for longer than any create
takes. One that its sandbox's record does not name is a stray, and a record without its instance is
missing something: the sandbox is looked at and settled. A list that cannot be read to its end is not
an empty list: nothing is done about that driver.

It ends with 0 unless something failed.`

func (f *frame) sweep() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:     "sweep",
		Short:   "Find what is left over, and tidy up",
		Long:    sweepHelp,
		Example: "  berth sweep --dry-run\n  berth sweep\n  berth sweep --json",
		Args:    takes(0, 0, ""),
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runSweep(ctx, dry) }),
	}
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "find, and change nothing")
	f.quietly(cmd, "the ids of the sandboxes of what was found")
	return f.online(cmd)
}

func (f *frame) runSweep(ctx context.Context, dry bool) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	spin := f.spin("sweeping")
	sweep, err := c.Sweep(ctx, api.SweepRequest{DryRun: dry})
	spin.stop()
	if err != nil {
		return c.explain(err)
	}
	if f.json {
		err = writeJSON(f.out, sweep)
	} else {
		err = f.showSweep(sweep)
	}
	if err == nil && sweepFailed(sweep) {
		return errReported
	}
	return err
}

// found is a finding and where it was made.
type found struct {
	driver string
	api.SweepFinding
}

func (f *frame) showSweep(sweep api.Sweep) error {
	var findings []found
	for _, d := range sweep.Drivers {
		for _, one := range d.Findings {
			findings = append(findings, found{d.Driver, one})
		}
	}
	if len(findings) > 0 {
		err := show(f, these(findings, nil), listing[found]{
			columns: []string{"DRIVER", "FOUND", "SANDBOX", "INSTANCE", "ACTION", "DETAIL"},
			row: func(x found) []cell {
				return []cell{plain(x.driver), plain(x.Kind), plain(orDash(x.SandboxID)), plain(orDash(x.Instance)),
					{x.Action, actionColour(x.Action)}, plain(orDash(x.Detail))}
			},
			id: func(x found) string { return x.SandboxID },
		})
		if err != nil {
			return err
		}
	}
	for _, d := range sweep.Drivers {
		if d.Error != "" {
			f.complain("%s: %s; nothing was done about it", clean(d.Driver), clean(d.Error))
		}
	}
	if f.quiet || len(findings) == 0 && sweepFailed(sweep) {
		return nil
	}
	_, err := fmt.Fprintln(f.out, clean(sweepInShort(sweep, len(findings))))
	return err
}

func actionColour(action string) colour {
	switch action {
	case "failed":
		return red
	case "ended", "settled":
		return green
	}
	return yellow
}

// sweepInShort is what came of it, what was forgotten, and how much was looked at.
func sweepInShort(sweep api.Sweep, findings int) string {
	parts := []string{"nothing to do"}
	switch {
	case findings > 0 && sweep.DryRun:
		parts = []string{plural(findings, "finding", "findings") + ", and nothing was changed (dry run)"}
	case findings > 0:
		parts = []string{plural(findings, "finding", "findings")}
	}
	if forgot := forgotten(sweep); forgot != "" {
		parts = append(parts, "forgot "+forgot)
	}
	return strings.Join(append(parts, instances(sweep)), "; ")
}

// forgotten is what had run out.
func forgotten(sweep api.Sweep) string {
	var all []string
	for _, x := range []struct {
		n         int64
		one, many string
	}{
		{sweep.Keys, "idempotency key", "idempotency keys"}, {sweep.Holds, "hold", "holds"}, {sweep.Places, "reserved place", "reserved places"},
	} {
		if x.n > 0 {
			all = append(all, plural(int(x.n), x.one, x.many))
		}
	}
	return strings.Join(all, ", ")
}

// instances is how much there is, at the drivers that have any.
func instances(sweep api.Sweep) string {
	var all []string
	for _, d := range sweep.Drivers {
		if d.Instances > 0 {
			all = append(all, driverInShort(d))
		}
	}
	return first(strings.Join(all, ", "), "no instances")
}

// driverInShort is how much was seen at a driver, and what of it is not ours to touch.
func driverInShort(d api.DriverSweep) string {
	text := plural(d.Instances, "instance", "instances") + " at " + d.Driver
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

// sweepFailed says whether anything could not be done.
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
