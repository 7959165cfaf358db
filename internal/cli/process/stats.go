package process

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) stats() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "stats [ID|NAME...]",
		Short: "Show the resource usage of running sandboxes",
		Long: `Show the processor time, memory and processes of the given sandboxes, or of all that run. At a terminal
the table is updated every two seconds until Ctrl-C; elsewhere, or with --once, it is printed once. The
command does not start sandboxes, and does not count as a use of them.

CPU is in percent of one processor. OOM counts the processes that were killed because the sandbox's
memory was full.`,
		Example:           "  berth stats\n  berth stats scratch --once --json",
		Args:              ui.Args(0, -1, "the ID or NAME of sandboxes"),
		ValidArgsFunction: a.CompleteSandboxes(-1),
		PreRunE:           a.ResolveSandboxes(-1),
		RunE: ui.Run(func(ctx context.Context, refs []string) error {
			return a.runStats(ctx, refs, once || !a.Out.TTY || a.JSON)
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "print it once")
	a.WideFlag(cmd)
	return a.Online(cmd)
}

// statsEvery is the time between two measurements.
const statsEvery = 2 * time.Second

// sandboxStats is one measurement, in the form of the JSON output.
type sandboxStats struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	api.SandboxStats
	CPUPercent float64 `json:"cpu_percent"`
}

func (a *app) runStats(ctx context.Context, refs []string, once bool) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	before := map[string]api.SandboxStats{}
	if _, err := a.measure(ctx, c, refs, before); err != nil {
		return err
	}
	wait := 500 * time.Millisecond // the first CPU percentage covers this time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		found, err := a.measure(ctx, c, refs, before)
		if err != nil {
			return err
		}
		if !once {
			fmt.Fprint(a.Out, "\x1b[H\x1b[2J") // clears the screen
		}
		if err := a.printStats(found); err != nil || once {
			return err
		}
		wait = statsEvery
	}
}

// measure reads the statistics of all sandboxes. If refs is empty, a sandbox that stopped after it was listed is left
// out.
func (a *app) measure(ctx context.Context, c *remote.Connection, refs []string, before map[string]api.SandboxStats) (found []sandboxStats, err error) {
	boxes, err := a.boxes(ctx, c, refs)
	if err != nil {
		return nil, err
	}
	for _, s := range boxes {
		now, err := c.Sandboxes.Stats(ctx, s.ID)
		switch {
		case len(refs) == 0 && (remote.IsCode(err, api.CodeNotRunning) || remote.IsCode(err, api.CodeUnsupported) || remote.IsCode(err, api.CodeNotFound)):
			continue
		case err != nil:
			return nil, c.ExistingHint(ctx, ui.First(s.Name, s.ID), err)
		}
		one := sandboxStats{ID: s.ID, Name: s.Name, SandboxStats: now}
		if last, ok := before[s.ID]; ok && now.At.After(last.At) {
			one.CPUPercent = max(0, 100*(now.CPUSeconds-last.CPUSeconds)/now.At.Sub(last.At).Seconds())
		}
		before[s.ID] = now
		found = append(found, one)
	}
	return found, nil
}

func (a *app) boxes(ctx context.Context, c *remote.Connection, refs []string) (boxes []api.Sandbox, err error) {
	if len(refs) == 0 {
		for s, err := range c.Sandboxes.List(ctx, client.SandboxFilter{State: "running"}) {
			if err != nil {
				return nil, c.Explain(err)
			}
			boxes = append(boxes, s)
		}
		return boxes, nil
	}
	for _, ref := range refs {
		s, err := c.Sandboxes.Get(ctx, ref)
		if err != nil {
			return nil, c.ExistingHint(ctx, ref, err)
		}
		boxes = append(boxes, s)
	}
	return boxes, nil
}

func (a *app) printStats(found []sandboxStats) error {
	return ui.Show(a.UI, ui.Items(found, nil), ui.Listing[sandboxStats]{
		Columns: []string{"NAME", "ID", "CPU", "MEMORY", "LIMIT", "PROCESSES", "OOM"},
		Drop:    []string{"LIMIT", "PROCESSES"},
		Row: func(s sandboxStats) []ui.Cell {
			limit, oom := "-", ui.Plain("-")
			if s.MemoryLimitBytes > 0 {
				limit = ui.Size(s.MemoryLimitBytes)
			}
			if s.OOMKills > 0 {
				oom = ui.Coloured(fmt.Sprint(s.OOMKills), ui.Red)
			}
			return []ui.Cell{ui.Plain(ui.OrDash(s.Name)), ui.Plain(a.ShortID(s.ID)), ui.Plain(fmt.Sprintf("%.1f%%", s.CPUPercent)),
				ui.Plain(ui.Size(s.MemoryBytes)), ui.Plain(limit), ui.Plain(fmt.Sprint(s.Processes)), oom}
		},
		ID:    func(s sandboxStats) string { return s.ID },
		Empty: "No sandbox runs.",
	})
}
