package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) explain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID|NAME",
		Short: "Say why a sandbox is as it is, and what comes next",
		Long: `Say why a sandbox is as it is: what happened to it, newest first; what will happen to it by itself and
when, if nobody uses it; what keeps timers away; and what of its files survives what.

'berth history' has everything that ever happened to it.`,
		Example:           "  berth explain scratch\n  berth explain scratch -q\n  berth explain scratch --json",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runExplain(ctx, args[0]) }),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	f.quietly(cmd, "the first sentence")
	return f.online(cmd)
}

func (f *frame) runExplain(ctx context.Context, ref string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	e, err := c.Sandboxes.Explain(ctx, ref)
	switch {
	case err != nil:
		return c.known(ctx, ref, err)
	case f.json:
		return writeJSON(f.out, e)
	}
	if _, err := fmt.Fprintln(f.out, f.out.paint(bold, clean(e.Summary))); err != nil || f.quiet {
		return err
	}
	return f.explained(e)
}

// mostSteps is how many steps of its life say why a sandbox is as it is.
const mostSteps = 8

// explained is everything behind the first sentence; what there is nothing to say about is left out.
func (f *frame) explained(e api.Explanation) error {
	var because, ahead, holds [][]cell
	for i, t := range e.Because {
		if i == mostSteps {
			because = append(because, []cell{{"earlier", dim}, {"'berth history' has it all", dim}, {}, {}})
			break
		}
		because = append(because, []cell{{f.when(t.At), dim}, {happened(t), stateColour(t.To)}, plain(orDash(t.Reason)), {by(t), dim}})
	}
	for _, p := range e.Ahead {
		ahead = append(ahead, f.prospect(p))
	}
	for _, h := range e.Holds {
		holds = append(holds, []cell{plain(h.Kind), plain(f.until(h.Until))})
	}
	if e.Sandbox.DeletedAt != nil {
		e.Keeps = nil // it is too late for any of it
	}
	for _, b := range []struct {
		title string
		rows  [][]cell
	}{
		{"Why", because}, {"Next, if nobody uses it", ahead}, {"Kept from timers by", holds},
		{"Left to do before it has ended", points(e.Left)}, {"What is kept", points(e.Keeps)},
	} {
		if err := f.block(b.title, b.rows); err != nil {
			return err
		}
	}
	return nil
}

// happened is one step of a sandbox's life.
func happened(t api.Transition) string {
	if t.Event == "want" {
		return "asked to be " + t.Want
	}
	return change(t)
}

func by(t api.Transition) string {
	if t.Actor == "" {
		return ""
	}
	return "by " + t.Actor
}

// prospect is one thing to come: what, when, and why or why not.
func (f *frame) prospect(p api.Prospect) []cell {
	what := cell{p.What, yellow}
	switch {
	case p.Off != "":
		return []cell{{p.What, dim}, {"off", dim}, plain(strings.TrimPrefix(p.Why+"; "+p.Off, "; "))}
	case p.At == nil:
		return []cell{what, plain("not by itself"), plain(p.Why)}
	}
	return []cell{what, plain(f.when(*p.At)), plain(p.Why)}
}

// until is how long something lasts, unless it is prolonged.
func (f *frame) until(t time.Time) string {
	if left := t.Sub(f.now()); f.out.tty && left > 0 {
		return "for another " + span(left)
	}
	return "until " + f.when(t)
}

// points are texts under each other; what stands before a colon is a column of its own.
func points(texts []string) (rows [][]cell) {
	for _, text := range texts {
		head, rest, _ := strings.Cut(text, ": ")
		rows = append(rows, []cell{plain(head), plain(rest)})
	}
	return rows
}

// block prints aligned rows under a title, and nothing at all if there are none.
func (f *frame) block(title string, rows [][]cell) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(f.out, "\n%s\n", f.out.paint(bold, title)); err != nil {
		return err
	}
	t := &table{out: f.out, indent: "  ", widths: make([]int, len(rows[0]))}
	for _, row := range rows {
		if err := t.add(row...); err != nil {
			return err
		}
	}
	return t.flush()
}
