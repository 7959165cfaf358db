// Package sandbox implements the commands for the life of a sandbox, from create to rm.
package sandbox

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

type app struct{ *remote.Remote }

// Commands returns the commands of the package. The commands in extra come before terminate and rm.
func Commands(r *remote.Remote, extra ...*cobra.Command) []*cobra.Command {
	a := &app{r}
	return slices.Concat([]*cobra.Command{a.create(), a.ls(), a.get()}, a.stateChanges(),
		[]*cobra.Command{a.explain(), a.history()}, extra, []*cobra.Command{a.terminate(), a.rm()})
}

// stateChange describes a command that changes the state of sandboxes.
type stateChange struct {
	verb, doing, done string
	short, long       string
	do                func(client.Sandboxes, context.Context, string) (api.Sandbox, error)
	start             func(client.Sandboxes, context.Context, string, ...client.StartOption) (api.Sandbox, error) // used instead of do
}

var stateChanges = []stateChange{
	{"start", "starting", "started", "Start sandboxes",
		`Start stopped sandboxes. Using a sandbox starts it, too.`, nil, client.Sandboxes.Start},
	{"stop", "stopping", "stopped", "Stop sandboxes and keep their files",
		`Stop sandboxes: their processes end, and their files stay. The next use of a sandbox starts it again.`, client.Sandboxes.Stop, nil},
	{"restart", "restarting", "restarted", "Stop sandboxes and start them again",
		`Stop sandboxes and start them again. All processes end; files stay.`, nil, client.Sandboxes.Restart},
	{"freeze", "freezing", "froze", "Freeze the processes of sandboxes",
		`Freeze all processes of sandboxes. They stay in memory and use no processor time. The next use of a
sandbox, or 'berth thaw', continues them.`, client.Sandboxes.Freeze, nil},
	{"thaw", "thawing", "thawed", "Continue frozen sandboxes",
		`Continue frozen sandboxes. Using a sandbox does the same.`, client.Sandboxes.Thaw, nil},
	{"archive", "archiving", "archived", "Save sandboxes and end their instances",
		`Save the workspaces of sandboxes and end their instances. The next use of a sandbox starts it again with
its workspace; files outside of the workspace are lost. A server that cannot save workspaces refuses,
and nothing is lost.`, client.Sandboxes.Archive, nil},
}

// stateChanges returns the command of each state change.
func (a *app) stateChanges() (cmds []*cobra.Command) {
	for _, t := range stateChanges {
		cmd := &cobra.Command{
			Use:               t.verb + " ID|NAME...",
			Short:             t.short,
			Long:              t.long,
			Example:           "  berth " + t.verb + " scratch\n  berth ls -q | xargs berth " + t.verb,
			Args:              ui.Args(1, -1, "the ID or NAME of at least one sandbox"),
			RunE:              ui.Run(func(ctx context.Context, refs []string) error { return a.runStateChange(ctx, t, refs) }),
			ValidArgsFunction: a.CompleteSandboxes(-1),
			PreRunE:           a.ResolveSandboxes(-1),
		}
		if t.start != nil {
			var many bool
			remote.MassDeleteFlag(cmd, &many)
			cmd.RunE = ui.Run(func(ctx context.Context, refs []string) error { return a.runStateChange(ctx, t.starting(many), refs) })
		}
		cmds = append(cmds, a.Online(cmd))
	}
	return cmds
}

// starting returns t with a do that calls start with its options.
func (t stateChange) starting(massDelete bool) stateChange {
	var opts []client.StartOption
	if massDelete {
		opts = append(opts, client.AllowMassDelete())
	}
	t.do = func(c client.Sandboxes, ctx context.Context, ref string) (api.Sandbox, error) {
		return t.start(c, ctx, ref, opts...)
	}
	return t
}

func (a *app) runStateChange(ctx context.Context, t stateChange, refs []string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return a.ForEach(ctx, remote.Action{Doing: t.doing, Done: t.done, Look: "berth get ", Do: func(ctx context.Context, ref string) (any, error) {
		s, err := t.do(c.Sandboxes, ctx, ref)
		return s, c.NotFoundHint(ctx, ref, err)
	}}, refs)
}
