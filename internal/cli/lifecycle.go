package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// turn is a verb that brings sandboxes somewhere else.
type turn struct {
	verb, doing, done string
	short, long       string
	do                func(client.Sandboxes, context.Context, string) (api.Sandbox, error)
	start             func(client.Sandboxes, context.Context, string, ...client.StartOption) (api.Sandbox, error) // instead of do
}

var turns = []turn{
	{"start", "starting", "started", "Start sandboxes",
		"Start sandboxes that are stopped. Using one starts it as well, so that this is only for those who\nwant it to run before that.", nil, client.Sandboxes.Start},
	{"stop", "stopping", "stopped", "Stop sandboxes and keep their files",
		"Stop sandboxes: everything that runs in them ends, and their files stay. The next use of one starts\nit again.", client.Sandboxes.Stop, nil},
	{"restart", "restarting", "restarted", "Stop sandboxes and start them again",
		"Stop sandboxes and start them again. Everything that runs in them ends, and their files stay.", nil, client.Sandboxes.Restart},
	{"freeze", "freezing", "froze", "Hold everything that runs in sandboxes",
		"Hold everything that runs in sandboxes where it is, in memory, without a bit of processor time. The\nnext use of one, or 'berth thaw', lets it run on.", client.Sandboxes.Freeze, nil},
	{"thaw", "thawing", "thawed", "Let frozen sandboxes run on",
		"Let frozen sandboxes run on from where they were held. Using one does the same.", client.Sandboxes.Thaw, nil},
	{"archive", "archiving", "archived", "Save sandboxes and give their machines back",
		"Save the workspaces of sandboxes and end their machines. The next use of one brings it back with its\nworkspace; what is outside of it is gone. A server that cannot save workspaces refuses, and nothing\nis lost.", client.Sandboxes.Archive, nil},
}

// turns makes a command of each.
func (f *frame) turns() (cmds []*cobra.Command) {
	for _, t := range turns {
		cmd := &cobra.Command{
			Use:               t.verb + " ID|NAME...",
			Short:             t.short,
			Long:              t.long,
			Example:           "  berth " + t.verb + " scratch\n  berth ls -q | xargs berth " + t.verb,
			Args:              takes(1, -1, "the ID or NAME of at least one sandbox"),
			RunE:              run(func(ctx context.Context, refs []string) error { return f.runTurn(ctx, t, refs) }),
			ValidArgsFunction: f.completeSandboxes(-1),
		}
		if t.start != nil {
			var many bool
			massDelete(cmd, &many)
			cmd.RunE = run(func(ctx context.Context, refs []string) error { return f.runTurn(ctx, t.starting(many), refs) })
		}
		cmds = append(cmds, f.online(cmd))
	}
	return cmds
}

// starting is the turn as it is done with its options.
func (t turn) starting(massDelete bool) turn {
	var opts []client.StartOption
	if massDelete {
		opts = append(opts, client.AllowMassDelete())
	}
	t.do = func(c client.Sandboxes, ctx context.Context, ref string) (api.Sandbox, error) {
		return t.start(c, ctx, ref, opts...)
	}
	return t
}

func (f *frame) runTurn(ctx context.Context, t turn, refs []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return f.inTurn(ctx, act{t.doing, t.done, "berth get ", func(ctx context.Context, ref string) (any, error) {
		s, err := t.do(c.Sandboxes, ctx, ref)
		return s, c.about(ctx, ref, err)
	}}, refs)
}

// act is what is done to one thing after the other.
type act struct {
	doing, done string
	look        string // the command that shows one
	do          func(ctx context.Context, ref string) (result any, err error)
}

// inTurn does it to each, whatever became of the others.
func (f *frame) inTurn(ctx context.Context, a act, refs []string) error {
	list, failed := &jsonList{w: f.out}, false
	for _, ref := range refs {
		result, err := f.actOn(ctx, a, ref)
		switch {
		case err != nil && ctx.Err() != nil:
			f.goesOn(a.look + ref)
			return err
		case err != nil:
			f.fail(err)
			failed = true
		case f.json:
			if err := list.add(result); err != nil {
				return err
			}
		}
	}
	if f.json {
		if err := list.end(); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

func (f *frame) actOn(ctx context.Context, a act, ref string) (any, error) {
	start := f.now()
	spin := f.spin(a.doing + " " + clean(ref))
	result, err := a.do(ctx, ref)
	spin.stop()
	if err == nil {
		f.say("%s %s (%s)", a.done, clean(ref), brief(f.now().Sub(start)))
	}
	return result, err
}
