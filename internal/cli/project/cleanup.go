package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/config"
)

func (a *app) projectCleanup() *cobra.Command {
	var idle time.Duration
	var dry bool
	cmd := &cobra.Command{
		Use:   "cleanup --max-idle TIME",
		Short: "Terminate sandboxes of unused projects",
		Long: `Terminate the sandboxes of projects that were not used for a while, after a save. If the server cannot
save, they are stopped and keep their files. The projects stay, and the next use of a project starts its
sandbox again. At a terminal it lists the projects and asks first.

Needs an admin key, and changes only projects of the key's tenant.`,
		Example: "  berth project cleanup --max-idle 1h --dry-run\n  berth project cleanup --max-idle 72h --yes",
		Args:    ui.Args(0, 0, ""),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		if idle < time.Second {
			return ui.Usagef(cmd, "%s needs --max-idle, a time of a second or more, such as 1h", cmd.CommandPath())
		}
		return a.runProjectCleanup(ctx, api.CleanupProjects{MaxIdleSeconds: int64(idle / time.Second), DryRun: dry})
	})
	cmd.Flags().DurationVar(&idle, "max-idle", 0, "`TIME` without use, such as 1h, after which one is let go")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "say which, and do nothing")
	a.YesFlag(cmd)
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "ids of projects")
	ui.Offer(cmd, "max-idle", []string{"1h", "24h", "168h"})
	return a.Online(cmd)
}

func (a *app) runProjectCleanup(ctx context.Context, want api.CleanupProjects) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if !want.DryRun && !a.Yes && ui.IsTerminal(a.Stdin) {
		if agreed, err := a.askCleanup(ctx, c, want); err != nil || !agreed {
			return err
		}
	}
	done, err := a.cleanUp(ctx, c, want)
	if err == nil || len(done.Items) > 0 {
		err = errors.Join(err, a.showCleanup(want, done))
	}
	if err != nil {
		return c.Explain(err)
	}
	if slices.ContainsFunc(done.Items, func(p api.CleanedProject) bool { return p.Error != "" }) {
		return ui.ErrReported
	}
	return nil
}

// askCleanup shows the sandboxes that would be terminated and asks the user.
func (a *app) askCleanup(ctx context.Context, c *remote.Connection, want api.CleanupProjects) (agreed bool, err error) {
	want.DryRun = true
	would, err := c.Projects.Cleanup(ctx, want)
	if err != nil {
		return false, c.Explain(err)
	}
	if len(would.Items) == 0 || !a.JSON && !a.Quiet {
		err = a.showCleanup(want, would)
	}
	if err != nil || len(would.Items) == 0 {
		return false, err
	}
	number := ui.Plural(len(would.Items), "sandbox", "sandboxes")
	if would.More {
		number = "more than " + number
	}
	return true, a.Confirm(ctx, "Let go of "+number+"?")
}

// cleanUp repeats the request until no sandboxes remain or a request has no effect.
func (a *app) cleanUp(ctx context.Context, c *remote.Connection, want api.CleanupProjects) (all api.ProjectCleanup, err error) {
	spin := a.Spin("cleaning up")
	defer spin.Stop()
	all.Items = []api.CleanedProject{} // empty, not nil: JSON output has [] then
	for {
		got, err := c.Projects.Cleanup(ctx, want)
		all.DryRun, all.More = got.DryRun, got.More
		all.Items = append(all.Items, got.Items...)
		progress := slices.ContainsFunc(got.Items, func(p api.CleanedProject) bool { return p.Done })
		if err != nil || !got.More || !progress {
			return all, err
		}
	}
}

func (a *app) showCleanup(want api.CleanupProjects, done api.ProjectCleanup) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, done)
	}
	err := ui.Show(a.UI, ui.Items(done.Items, nil), ui.Listing[api.CleanedProject]{
		Columns: []string{"PROJECT", "SANDBOX", "IDLE", "ACTION"},
		Drop:    []string{"SANDBOX"},
		Row: func(p api.CleanedProject) []ui.Cell {
			return []ui.Cell{ui.Plain(p.ProjectID), ui.Plain(a.ShortID(p.SandboxID)), ui.Plain(ui.Span(time.Duration(p.IdleSeconds) * time.Second)), cleaned(p)}
		},
		ID:    func(p api.CleanedProject) string { return p.ProjectID },
		Empty: fmt.Sprintf("Nothing to let go of: no project's sandbox was idle for %s.", config.FormatDuration(time.Duration(want.MaxIdleSeconds)*time.Second)),
	})
	if err == nil && done.More {
		a.Notef("There are more.")
	}
	return err
}

// cleaned describes the action on a project's sandbox: done, failed, or planned in a dry run.
func cleaned(p api.CleanedProject) ui.Cell {
	switch {
	case p.Error != "":
		return ui.Coloured(strings.TrimSpace(p.Action+" failed: "+p.Error), ui.Red)
	case p.Done:
		return ui.Coloured(ui.First(map[string]string{"stop": "stopped", "terminate": "terminated"}[p.Action], p.Action), ui.Green)
	}
	return ui.Coloured("would "+p.Action, ui.Yellow)
}
