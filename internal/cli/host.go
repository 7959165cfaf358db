package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) host() *cobra.Command {
	return group(&cobra.Command{
		Use:   "host",
		Short: "List machines, and forget one that is gone for good",
		Long: `List the machines that keep local sandboxes and share this server's database, and forget one that is gone
for good. It needs an admin key of the tenant 'default'.`,
		Example: "  berth host ls\n  berth host forget build-7-k3xq2a",
	}, f.hostLs(), f.hostForget())
}

func (f *frame) hostLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List machines",
		Long: `List the machines that keep local sandboxes, with the address of each server (advertise_url), when it was
last seen, and how many sandboxes it has.`,
		Example: "  berth host ls\n  berth host ls --json",
		Args:    takes(0, 0, ""),
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runHostLs(ctx) }),
	}
	f.quietly(cmd, "names")
	return f.online(cmd)
}

func (f *frame) runHostLs(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.explain(show(f, c.Hosts(ctx), listing[api.Host]{
		columns: []string{"NAME", "ADDRESS", "STATUS", "SEEN", "STARTED", "SANDBOXES"},
		row: func(h api.Host) []cell {
			status, colour := hostStatus(h)
			return []cell{plain(h.Name), plain(orDash(h.AdvertiseURL)), {status, colour},
				plain(f.whenever(h.SeenAt)), plain(f.whenever(h.StartedAt)), plain(fmt.Sprint(h.Sandboxes))}
		},
		id: func(h api.Host) string { return h.Name },
	}))
}

func hostStatus(h api.Host) (string, colour) {
	switch {
	case h.ForgottenAt != nil:
		return "forgotten", dim
	case h.Alive:
		return "running", green
	}
	return "away", yellow
}

func (f *frame) hostForget() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Give up a machine that is gone for good",
		Long: `Give up a machine that is gone for good. A terminal is asked first.

Its sandboxes start on other machines from then on, from their last version, and deletes that waited for
it are finished. What was not saved is shown for each sandbox: those files were on that machine only.

A machine whose server was seen within the last minute is refused; turn it off first, or give --force.
Should a forgotten machine come back, its server stops what it had of these sandboxes and keeps the files,
until each sandbox is deleted; 'berth sweep' there lists them.`,
		Example:           "  berth host forget build-7-k3xq2a\n  berth host forget --yes --json build-7-k3xq2a",
		Args:              takes(1, 1, "the NAME of one machine; 'berth host ls' shows them"),
		RunE:              run(func(ctx context.Context, args []string) error { return f.runHostForget(ctx, args[0], force) }),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if its server was seen within the last minute, or never reported")
	f.confirmed(cmd)
	f.quietly(cmd, "the ids of its sandboxes")
	return f.online(cmd)
}

func (f *frame) runHostForget(ctx context.Context, name string, force bool) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if err := f.ask(ctx, "Forget the machine "+name+"? Files that are only there are lost to its sandboxes."); err != nil {
		return err
	}
	spin := f.spin("forgetting " + name)
	done, err := c.ForgetHost(ctx, name, force)
	spin.stop()
	switch {
	case err != nil:
		return c.explain(err)
	case f.json:
		return writeJSON(f.out, done)
	}
	return f.showForgotten(done)
}

func (f *frame) showForgotten(done api.ForgottenHost) error {
	failed := 0
	if len(done.Sandboxes) > 0 {
		err := show(f, these(done.Sandboxes, nil), listing[api.ForgottenSandbox]{
			columns: []string{"ID", "OWNER", "WAS", "LAST VERSION", "LAST USE", "NOT SAVED"},
			row: func(s api.ForgottenSandbox) []cell {
				lost, colour := f.notSaved(s)
				return []cell{plain(s.ID), plain(s.Owner.Kind + " " + s.Owner.ID), plain(s.State), plain(orDash(s.Version)), plain(f.when(s.ActiveAt)), {lost, colour}}
			},
			id: func(s api.ForgottenSandbox) string { return s.ID },
		})
		if err != nil {
			return err
		}
	}
	for _, s := range done.Sandboxes {
		if s.Error != "" {
			failed++
			f.complain("%s still belongs to the machine: %s; run the command again", clean(s.ID), clean(s.Error))
		}
	}
	if !f.quiet {
		f.say("forgot %s; %s can start elsewhere", clean(done.Name), plural(len(done.Sandboxes)-failed, "sandbox", "sandboxes"))
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

// notSaved says what of a sandbox was only on the forgotten machine.
func (f *frame) notSaved(s api.ForgottenSandbox) (string, colour) {
	switch {
	case s.Error != "":
		return "failed: " + s.Error, red
	case s.Deleting:
		return "was being deleted", dim
	case s.UnsavedSince != nil:
		return "changes since " + f.when(*s.UnsavedSince), yellow
	case s.Lost && s.Version == "":
		return "everything: it has no version", yellow
	}
	return "nothing known", green
}
