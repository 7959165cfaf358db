package sandbox

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) history() *cobra.Command {
	var most ui.Limit
	cmd := &cobra.Command{
		Use:   "history ID|NAME",
		Short: "Show the history of a sandbox",
		Long: `Show every change of a sandbox, newest first, with its reason and the key that requested it. Saves of
the workspace, the last restore, processes that were killed because the memory was full and a freeze are
shown, too; --json prints the changes only.`,
		Example:           "  berth history scratch\n  berth history scratch --limit 5 --json",
		Args:              ui.Args(1, 1, "the ID or NAME of one sandbox"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runHistory(ctx, args[0], most) }),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
	}
	a.WideFlag(cmd)
	ui.LimitFlag(a.Online(cmd), &most)
	return cmd
}

func (a *app) runHistory(ctx context.Context, ref string, most ui.Limit) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.ExistingHint(ctx, ref, ui.Show(a.UI, a.events(ctx, c, ref), ui.Listing[api.Transition]{
		Columns: []string{"WHEN", "EVENT", "STATE", "WANT", "BY", "REASON"},
		Drop:    []string{"WANT", "BY"},
		Row: func(t api.Transition) []ui.Cell {
			return []ui.Cell{ui.Plain(a.Time(t.At)), ui.Plain(t.Event), ui.Coloured(change(t), ui.StateColour(t.To)),
				ui.Plain(ui.OrDash(t.Want)), ui.Plain(ui.OrDash(a.actor(t.Actor))), ui.Plain(ui.OrDash(t.Reason))}
		},
		Empty: "Nothing has happened to it yet.",
		Limit: int(most),
	}))
}

// events yields the transitions of a sandbox, newest first. For text output it adds its current condition, saves and
// restores.
func (a *app) events(ctx context.Context, c *remote.Connection, ref string) iter.Seq2[api.Transition, error] {
	if a.JSON {
		return c.Sandboxes.History(ctx, ref)
	}
	return func(yield func(api.Transition, error) bool) {
		saves, stop := iter.Pull2(a.saves(ctx, c, ref))
		defer stop()
		save, _, more := saves()
		for t, err := range c.Sandboxes.History(ctx, ref) {
			for ; err == nil && more && save.At.After(t.At); save, _, more = saves() {
				if !yield(save, nil) {
					return
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// saves yields the current condition, the last restore and the saved versions as transitions, newest first. Without an
// object store there are no versions.
func (a *app) saves(ctx context.Context, c *remote.Connection, ref string) iter.Seq2[api.Transition, error] {
	return func(yield func(api.Transition, error) bool) {
		s, err := c.Sandboxes.Get(ctx, ref)
		restored := s.Restored
		if err != nil {
			restored = nil
		}
		for _, now := range a.conditions(s) {
			if !yield(now, nil) {
				return
			}
		}
		for v, err := range c.Sandboxes.Versions(ctx, ref) {
			if err != nil {
				break
			}
			if restored != nil && restored.At.After(v.CreatedAt) {
				if !yield(a.restored(restored), nil) {
					return
				}
				restored = nil
			}
			what := fmt.Sprintf("version %s, %s, %s", a.ShortVersion(v.ID), ui.Plural(v.Files, "file", "files"), ui.Size(v.Bytes))
			if v.Note != "" {
				what += ": " + v.Note
			}
			if !yield(api.Transition{At: v.CreatedAt, Event: "saved", Reason: what}, nil) {
				return
			}
		}
		if restored != nil {
			yield(a.restored(restored), nil)
		}
	}
}

// conditions returns a transition if the sandbox is frozen and one if its memory is full. It has the current time,
// because the start of the condition is not recorded.
func (a *app) conditions(s api.Sandbox) (now []api.Transition) {
	add := func(event, reason string) {
		now = append(now, api.Transition{At: a.Now(), Event: event, From: s.State, To: s.State, Reason: reason})
	}
	if s.Frozen {
		add("frozen", "all processes are held in memory")
	}
	if s.OOMKills > 0 {
		add("oom", memoryFull(s))
	}
	return now
}

func memoryFull(s api.Sandbox) string {
	return "memory full: " + ui.Plural(int(s.OOMKills), "process was", "processes were") + " killed since the start"
}

func (a *app) restored(r *api.RestoredVersion) api.Transition {
	return api.Transition{At: r.At, Event: "restored", Reason: "version " + a.ShortVersion(r.Version)}
}

// withID matches the actor of a request with an API key: its label and id.
var withID = regexp.MustCompile(`^(key .+) \([0-9a-f-]{36}\)$`)

// actor returns the label of a key without its id, unless --wide is given.
func (a *app) actor(text string) string {
	if !a.Out.TTY || a.Wide {
		return text
	}
	if m := withID.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	if id, ok := strings.CutPrefix(text, "key "); ok {
		return "key " + a.ShortID(id)
	}
	return text
}

func change(t api.Transition) string {
	switch {
	case t.From == t.To:
		return ui.OrDash(t.To)
	case t.From == "":
		return t.To
	}
	return t.From + " → " + t.To
}
