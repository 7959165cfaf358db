package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) explain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID|NAME",
		Short: "Explain a sandbox's state and what comes next",
		Long: `Explain a sandbox's state: the latest changes, newest first; the next steps and their times if it is not
used; the holds that stop its timers; and which of its files each event keeps.

'berth history' lists all changes.`,
		Example:           "  berth explain scratch\n  berth explain scratch -q\n  berth explain scratch --json",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runExplain(ctx, args[0]) }),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "the first sentence")
	return a.Online(cmd)
}

func (a *app) runExplain(ctx context.Context, ref string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	e, err := c.Sandboxes.Explain(ctx, ref)
	switch {
	case err != nil:
		return c.ExistingHint(ctx, ref, err)
	case a.JSON:
		return ui.WriteJSON(a.Out, e)
	}
	for _, line := range a.WrapLine(ui.Clean(e.Summary)) {
		if _, err := fmt.Fprintln(a.Out, a.Out.Paint(ui.Bold, line)); err != nil {
			return err
		}
	}
	if a.Quiet {
		return nil
	}
	return a.printExplanation(e)
}

// maxSteps is the number of past events that explain shows.
const maxSteps = 8

// printExplanation prints everything after the summary. Empty parts are left out.
func (a *app) printExplanation(e api.Explanation) error {
	var because, ahead, holds [][]ui.Cell
	for i, t := range e.Because {
		if i == maxSteps {
			because = append(because, []ui.Cell{ui.Coloured("earlier", ui.Dim), ui.Coloured("'berth history' has it all", ui.Dim), {}, {}})
			break
		}
		because = append(because, []ui.Cell{ui.Coloured(a.Time(t.At), ui.Dim), ui.Coloured(stepText(t), ui.StateColour(t.To)),
			ui.Plain(ui.OrDash(t.Reason)), ui.Coloured(a.by(t), ui.Dim)})
	}
	for _, p := range e.Ahead {
		ahead = append(ahead, a.prospect(p))
	}
	for _, h := range e.Holds {
		holds = append(holds, []ui.Cell{ui.Plain(h.Kind), ui.Plain(a.until(h.Until))})
	}
	if e.Sandbox.DeletedAt != nil {
		e.Keeps = nil // the sandbox is deleted, so none of it is kept
	}
	for _, b := range []struct {
		title string
		rows  [][]ui.Cell
	}{
		{"Its instance", points(e.Instance)}, {"Why", because}, {"Next, if it is not used", ahead}, {"Kept from timers by", holds},
		{"Left to do before it has ended", points(e.Left)}, {"Kept", points(e.Keeps)},
		{"Not limited", points(e.Unlimited)},
	} {
		if err := a.Block(b.title, b.rows); err != nil {
			return err
		}
	}
	return nil
}

// stepText describes one past event of a sandbox.
func stepText(t api.Transition) string {
	if t.Event == "want" {
		return "desired state " + t.Want
	}
	return change(t)
}

func (a *app) by(t api.Transition) string {
	if t.Actor == "" {
		return ""
	}
	return "by " + a.actor(t.Actor)
}

// prospect returns the row for a future event: the action, the time, and the reason.
func (a *app) prospect(p api.Prospect) []ui.Cell {
	what := ui.Coloured(p.What, ui.Yellow)
	switch {
	case p.Off != "":
		return []ui.Cell{ui.Coloured(p.What, ui.Dim), ui.Coloured("off", ui.Dim), ui.Plain(strings.TrimPrefix(p.Why+"; "+p.Off, "; "))}
	case p.At == nil:
		return []ui.Cell{what, ui.Plain("not by itself"), ui.Plain(p.Why)}
	}
	return []ui.Cell{what, ui.Plain(a.Time(*p.At)), ui.Plain(p.Why)}
}

// until returns the end of a hold as text.
func (a *app) until(t time.Time) string {
	if left := t.Sub(a.Now()); a.Out.TTY && left > 0 {
		return "for another " + ui.Span(left)
	}
	return "until " + a.Time(t)
}

// points returns rows of two columns: the text before the first colon, and the rest.
func points(texts []string) (rows [][]ui.Cell) {
	for _, text := range texts {
		head, rest, _ := strings.Cut(text, ": ")
		rows = append(rows, []ui.Cell{ui.Plain(head), ui.Plain(rest)})
	}
	return rows
}
