package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) history() *cobra.Command {
	var most limit
	cmd := &cobra.Command{
		Use:               "history ID|NAME",
		Short:             "Show what happened to a sandbox, newest first",
		Long:              "Show every change of a sandbox, newest first: what happened, why, and who asked.",
		Example:           "  berth history scratch\n  berth history scratch --limit 5 --json",
		Args:              takes(1, 1, "the ID or NAME of one sandbox"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runHistory(ctx, args[0], most) }),
		ValidArgsFunction: f.completeSandboxes(1),
	}
	limited(f.online(cmd), &most)
	return cmd
}

func (f *frame) runHistory(ctx context.Context, ref string, most limit) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.known(ctx, ref, show(f, c.Sandboxes.History(ctx, ref), listing[api.Transition]{
		columns: []string{"WHEN", "EVENT", "STATE", "WANT", "BY", "REASON"},
		row: func(t api.Transition) []cell {
			return []cell{plain(f.when(t.At)), plain(t.Event), {change(t), stateColour(t.To)},
				plain(orDash(t.Want)), plain(orDash(t.Actor)), plain(orDash(t.Reason))}
		},
		empty: "Nothing has happened to it yet.",
		limit: int(most),
	}))
}

func change(t api.Transition) string {
	switch {
	case t.From == t.To:
		return orDash(t.To)
	case t.From == "":
		return t.To
	}
	return t.From + " → " + t.To
}
