package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) host() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:   "host",
		Short: "Manage machines of the fleet",
		Long: `List the machines with local sandboxes that share this server's database, and forget a machine that is
gone for good. Needs an admin key of the tenant 'default'.`,
		Example: "  berth host ls\n  berth host forget build-7-k3xq2a",
	}, a.hostLs(), a.hostForget())
}

func (a *app) hostLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List machines",
		Long: `List the machines with local sandboxes, with the address of each server (advertise_url), the time it was
last seen, and its number of sandboxes.`,
		Example: "  berth host ls\n  berth host ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runHostLs(ctx) }),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "names")
	return a.Online(cmd)
}

func (a *app) runHostLs(ctx context.Context) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.Explain(ui.Show(a.UI, c.Hosts(ctx), ui.Listing[api.Host]{
		Columns: []string{"NAME", "ADDRESS", "STATUS", "SEEN", "STARTED", "SANDBOXES"},
		Drop:    []string{"STARTED", "ADDRESS"},
		Row: func(h api.Host) []ui.Cell {
			status, colour := hostStatus(h)
			return []ui.Cell{ui.Plain(h.Name), ui.Plain(ui.OrDash(h.AdvertiseURL)), ui.Coloured(status, colour),
				ui.Plain(a.TimeOrDash(h.SeenAt)), ui.Plain(a.TimeOrDash(h.StartedAt)), ui.Plain(fmt.Sprint(h.Sandboxes))}
		},
		ID: func(h api.Host) string { return h.Name },
	}))
}

func hostStatus(h api.Host) (string, ui.Colour) {
	switch {
	case h.ForgottenAt != nil:
		return "forgotten", ui.Dim
	case h.Alive:
		return "running", ui.Green
	}
	return "away", ui.Yellow
}

func (a *app) hostForget() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Forget a machine that is gone for good",
		Long: `Forget a machine that is gone for good. At a terminal it asks first.

Its sandboxes can then start on other machines, from their last version, and deletes that waited for the
machine are completed. Unsaved changes of each sandbox are shown: those files were only on that machine.

A machine whose server was seen within the last minute is refused; turn it off first, or give --force.
If a forgotten machine comes back, its server stops its instances of these sandboxes and keeps the files
until each sandbox is deleted; 'berth sweep' there lists them.`,
		Example:           "  berth host forget build-7-k3xq2a\n  berth host forget --yes --json build-7-k3xq2a",
		Args:              ui.Args(1, 1, "the NAME of one machine; 'berth host ls' shows them"),
		RunE:              ui.Run(func(ctx context.Context, args []string) error { return a.runHostForget(ctx, args[0], force) }),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if its server was seen within the last minute, or never reported")
	a.YesFlag(cmd)
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "the ids of its sandboxes")
	return a.Online(cmd)
}

func (a *app) runHostForget(ctx context.Context, name string, force bool) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	if err := a.Confirm(ctx, "Forget the machine "+name+"? Files that are only there are lost to its sandboxes."); err != nil {
		return err
	}
	spin := a.Spin("forgetting " + name)
	done, err := c.ForgetHost(ctx, name, force)
	spin.Stop()
	switch {
	case err != nil:
		return c.Explain(err)
	case a.JSON:
		return ui.WriteJSON(a.Out, done)
	}
	return a.showForgotten(done)
}

func (a *app) showForgotten(done api.ForgottenHost) error {
	failed := 0
	if len(done.Sandboxes) > 0 {
		err := ui.Show(a.UI, ui.Items(done.Sandboxes, nil), ui.Listing[api.ForgottenSandbox]{
			Columns: []string{"ID", "OWNER", "WAS", "LAST VERSION", "LAST USE", "NOT SAVED"},
			Drop:    []string{"OWNER", "WAS"},
			Row: func(s api.ForgottenSandbox) []ui.Cell {
				lost, colour := a.notSaved(s)
				return []ui.Cell{ui.Plain(a.ShortID(s.ID)), ui.Plain(s.Owner.Kind + " " + a.ShortID(s.Owner.ID)),
					ui.Plain(s.State), ui.Plain(ui.OrDash(a.ShortVersion(s.Version))), ui.Plain(a.Time(s.ActiveAt)),
					ui.Coloured(lost, colour)}
			},
			ID: func(s api.ForgottenSandbox) string { return s.ID },
		})
		if err != nil {
			return err
		}
	}
	for _, s := range done.Sandboxes {
		if s.Error != "" {
			failed++
			a.Errorf("%s still belongs to the machine: %s; run the command again", ui.Clean(s.ID), ui.Clean(s.Error))
		}
	}
	if !a.Quiet {
		a.Printf("forgot %s; %s can start elsewhere", ui.Clean(done.Name), ui.Plural(len(done.Sandboxes)-failed, "sandbox", "sandboxes"))
	}
	if failed > 0 {
		return ui.ErrReported
	}
	return nil
}

// notSaved describes the changes of a sandbox that existed only on the forgotten machine.
func (a *app) notSaved(s api.ForgottenSandbox) (string, ui.Colour) {
	switch {
	case s.Error != "":
		return "failed: " + s.Error, ui.Red
	case s.Deleting:
		return "was being deleted", ui.Dim
	case s.UnsavedSince != nil:
		return "changes since " + a.Time(*s.UnsavedSince), ui.Yellow
	case s.Lost && s.Version == "":
		return "everything: it has no version", ui.Yellow
	}
	return "nothing known", ui.Green
}
