package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) get() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get ID|NAME",
		Short:             "Show one sandbox",
		Long:              `Show one sandbox, by its id or its name.`,
		Example:           "  berth get scratch\n  berth get scratch --json",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runGet(ctx, args[0]) }),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	return a.Online(cmd)
}

func (a *app) runGet(ctx context.Context, ref string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	s, err := c.Sandboxes.Get(ctx, ref)
	switch {
	case err != nil:
		return c.ExistingHint(ctx, ref, err)
	case a.JSON:
		return ui.WriteJSON(a.Out, s)
	}
	return a.Details(a.describe(s))
}

// describe returns the details of a sandbox for text output.
func (a *app) describe(s api.Sandbox) []ui.Detail {
	lines := []ui.Detail{
		{"id", s.ID}, {"name", s.Name}, {"owner", s.Owner.Kind + " " + s.Owner.ID},
		{"state", s.State}, {"want", s.Want},
		{"template", s.Template}, {"driver", s.Driver}, {"profile", s.Profile},
		{"instance", s.Instance}, {"incarnation", fmt.Sprint(s.Incarnation)},
		{"created", a.Time(s.CreatedAt)}, {"started", a.TimeOrDash(s.StartedAt)}, {"active", a.Time(s.ActiveAt)},
		{"env", strings.Join(s.Env, ", ")}, {"metadata", ui.Joined(s.Metadata)},
	}
	if s.Frozen {
		lines[3][1] += ", frozen"
	}
	if s.OOMKills > 0 {
		lines = append(lines, ui.Detail{"memory", "full: " + ui.Plural(int(s.OOMKills), "process was", "processes were") + " killed since the start; a larger --profile has more"})
	}
	if t := s.Traffic; t != nil {
		lines = append(lines, ui.Detail{"traffic", fmt.Sprintf("%d bytes in, %d bytes out", t.BytesIn, t.BytesOut)})
	}
	lines = append(lines, a.SavedDetails(s.Saved)...)
	if s.DeletedAt != nil {
		lines = append(lines, ui.Detail{"deleted", a.Time(*s.DeletedAt)})
	}
	if e := s.Error; e != nil {
		lines = append(lines, ui.Detail{"error", fmt.Sprintf("%s (%s, %s, failures in a row: %d)", e.Message, e.Code, a.Time(e.At), e.Attempts)})
	}
	return lines
}
