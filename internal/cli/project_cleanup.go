package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
)

func (f *frame) projectCleanup() *cobra.Command {
	var idle time.Duration
	var dry bool
	cmd := &cobra.Command{
		Use:   "cleanup --max-idle TIME",
		Short: "Let go of sandboxes of projects that nobody used for a while",
		Long: `Let go of the sandboxes of projects that nobody used for a while: they are terminated after a save, or
stopped with their files kept where the server cannot save. The projects stay, and the next use of one
brings its sandbox back. A terminal is shown which they are and asked first.

It needs an admin key, and touches the projects of the key's tenant alone.`,
		Example: "  berth project cleanup --max-idle 1h --dry-run\n  berth project cleanup --max-idle 72h --yes",
		Args:    takes(0, 0, ""),
	}
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		if idle < time.Second {
			return usagef(cmd, "%s needs --max-idle, a time of a second or more, such as 1h", cmd.CommandPath())
		}
		return f.runProjectCleanup(ctx, api.CleanupProjects{MaxIdleSeconds: int64(idle / time.Second), DryRun: dry})
	})
	cmd.Flags().DurationVar(&idle, "max-idle", 0, "`TIME` without use, such as 1h, after which one is let go")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "say which, and do nothing")
	f.confirmed(cmd)
	f.quietly(cmd, "ids of projects")
	offer(cmd, "max-idle", []string{"1h", "24h", "168h"})
	return f.online(cmd)
}

func (f *frame) runProjectCleanup(ctx context.Context, want api.CleanupProjects) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if !want.DryRun && !f.yes && isTerminal(f.Stdin) {
		if agreed, err := f.askCleanup(ctx, c, want); err != nil || !agreed {
			return err
		}
	}
	done, err := f.cleanUp(ctx, c, want)
	if err == nil || len(done.Items) > 0 {
		err = errors.Join(err, f.showCleanup(want, done))
	}
	if err != nil {
		return c.explain(err)
	}
	if slices.ContainsFunc(done.Items, func(p api.CleanedProject) bool { return p.Error != "" }) {
		return errReported
	}
	return nil
}

// askCleanup shows a person what would be done, and asks.
func (f *frame) askCleanup(ctx context.Context, c *connection, want api.CleanupProjects) (agreed bool, err error) {
	want.DryRun = true
	would, err := c.Projects.Cleanup(ctx, want)
	if err != nil {
		return false, c.explain(err)
	}
	if len(would.Items) == 0 || !f.json && !f.quiet {
		err = f.showCleanup(want, would)
	}
	if err != nil || len(would.Items) == 0 {
		return false, err
	}
	number := plural(len(would.Items), "sandbox", "sandboxes")
	if would.More {
		number = "more than " + number
	}
	return true, f.ask(ctx, "Let go of "+number+"?")
}

// cleanUp asks until there is no more, or nothing comes of it.
func (f *frame) cleanUp(ctx context.Context, c *connection, want api.CleanupProjects) (all api.ProjectCleanup, err error) {
	spin := f.spin("cleaning up")
	defer spin.stop()
	all.Items = []api.CleanedProject{} // in JSON, none are a list, too
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

func (f *frame) showCleanup(want api.CleanupProjects, done api.ProjectCleanup) error {
	if f.json {
		return writeJSON(f.out, done)
	}
	err := show(f, these(done.Items, nil), listing[api.CleanedProject]{
		columns: []string{"PROJECT", "SANDBOX", "IDLE", "ACTION"},
		row: func(p api.CleanedProject) []cell {
			return []cell{plain(p.ProjectID), plain(p.SandboxID), plain(span(time.Duration(p.IdleSeconds) * time.Second)), cleaned(p)}
		},
		id:    func(p api.CleanedProject) string { return p.ProjectID },
		empty: fmt.Sprintf("Nothing to let go of: no project's sandbox was idle for %s.", config.FormatDuration(time.Duration(want.MaxIdleSeconds)*time.Second)),
	})
	if err == nil && done.More {
		f.notef("There are more.")
	}
	return err
}

// cleaned is what was done to one, or would be.
func cleaned(p api.CleanedProject) cell {
	switch {
	case p.Error != "":
		return cell{strings.TrimSpace(p.Action + " failed: " + p.Error), red}
	case p.Done:
		return cell{first(map[string]string{"stop": "stopped", "terminate": "terminated"}[p.Action], p.Action), green}
	}
	return cell{"would " + p.Action, yellow}
}
