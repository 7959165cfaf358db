package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) account() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "account",
		Aliases: []string{"accounts"},
		Short:   "Manage accounts",
		Long: `An account is a person or a service of your tenant. A key that belongs to an account sees only that
account's conversations and sandboxes, unless the key has the scope admin. Changes of accounts need a
key with the scope admin.`,
		Example: "  berth account create ann\n  berth keys create laptop --account ID",
	}, a.accountCreate(), a.accountLs(), a.accountRm())
}

func (a *app) accountCreate() *cobra.Command {
	var want api.CreateAccount
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create an account",
		Long:    `Create an account of your tenant. 'berth keys create --account ID' creates a key that belongs to it.`,
		Example: "  berth account create ann --email ann@example.com",
		Args:    ui.Args(1, 1, "one NAME"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			want.Name = args[0]
			c, err := a.Connect()
			if err != nil {
				return err
			}
			made, err := c.Accounts.Create(ctx, want)
			switch {
			case err != nil:
				return c.Explain(err)
			case a.JSON:
				return ui.WriteJSON(a.Out, made)
			case a.Quiet:
				_, err := fmt.Fprintln(a.Out, ui.Clean(made.ID))
				return err
			}
			return a.Details([]ui.Detail{{"id", made.ID}, {"name", made.Name}, {"email", made.Email}, {"created", a.Time(made.CreatedAt)}})
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&want.Email, "email", "", "`ADDRESS` of the person")
	a.QuietFlag(cmd, "the id")
	return a.Online(cmd)
}

func (a *app) accountLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List accounts",
		Long:    "List the accounts that your key may see, newest first.",
		Example: "  berth account ls\n  berth account ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE: ui.Run(func(ctx context.Context, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return c.Explain(ui.Show(a.UI, c.Accounts.List(ctx), ui.Listing[api.Account]{
				Columns: []string{"ID", "NAME", "EMAIL", "CREATED"},
				Drop:    []string{"CREATED"},
				Row: func(acc api.Account) []ui.Cell {
					return []ui.Cell{ui.Plain(a.ShortID(acc.ID)), ui.Plain(ui.OrDash(acc.Name)), ui.Plain(ui.OrDash(acc.Email)), ui.Plain(a.Time(acc.CreatedAt))}
				},
				ID:    func(acc api.Account) string { return acc.ID },
				Empty: "No accounts yet. 'berth account create NAME' makes one.",
			}))
		}),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "ids")
	return a.Online(cmd)
}

func (a *app) accountRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete accounts and revoke their keys",
		Long: `Delete accounts for good and revoke their keys. At a terminal it asks first. The accounts' conversations
and sandboxes stay; keys without an account see them.`,
		Example: "  berth account rm 01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10",
		Args:    ui.Args(1, -1, "the ID of at least one account; 'berth account ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, ids []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.RemoveEach(ctx, remote.Removal{
				Question: "Delete account %s and revoke its keys?",
				Word:     "deleted",
				Find: func(ctx context.Context, id string) error {
					_, err := c.Accounts.Get(ctx, id)
					return c.Explain(err)
				},
				Do: func(ctx context.Context, id string) error { return c.Explain(c.Accounts.Delete(ctx, id)) },
			}, ids)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.YesFlag(cmd)
	return a.Online(cmd)
}
