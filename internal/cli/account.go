package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) account() *cobra.Command {
	return group(&cobra.Command{
		Use:     "account",
		Aliases: []string{"accounts"},
		Short:   "Make, list and delete accounts",
		Long: `An account is a person or a service of your tenant. A key that belongs to one sees only that account's
conversations and sandboxes, unless it has the scope admin. Changing accounts needs a key with the scope admin.`,
		Example: "  berth account create ann\n  berth keys create laptop --account ID",
	}, f.accountCreate(), f.accountLs(), f.accountRm())
}

func (f *frame) accountCreate() *cobra.Command {
	var want api.CreateAccount
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make an account",
		Long:    "Make an account of your tenant. 'berth keys create --account ID' makes a key that belongs to it.",
		Example: "  berth account create ann --email ann@example.com",
		Args:    takes(1, 1, "one NAME"),
		RunE: run(func(ctx context.Context, args []string) error {
			want.Name = args[0]
			c, err := f.connect()
			if err != nil {
				return err
			}
			made, err := c.Accounts.Create(ctx, want)
			switch {
			case err != nil:
				return c.explain(err)
			case f.json:
				return writeJSON(f.out, made)
			case f.quiet:
				_, err := fmt.Fprintln(f.out, clean(made.ID))
				return err
			}
			return f.details([]detail{{"id", made.ID}, {"name", made.Name}, {"email", made.Email}, {"created", f.when(made.CreatedAt)}})
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&want.Email, "email", "", "`ADDRESS` of the person")
	f.quietly(cmd, "the id")
	return f.online(cmd)
}

func (f *frame) accountLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List accounts",
		Long:    "List the accounts that your key may see, newest first.",
		Example: "  berth account ls\n  berth account ls --json",
		Args:    takes(0, 0, ""),
		RunE: run(func(ctx context.Context, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return c.explain(show(f, c.Accounts.List(ctx), listing[api.Account]{
				columns: []string{"ID", "NAME", "EMAIL", "CREATED"},
				row: func(a api.Account) []cell {
					return []cell{plain(a.ID), plain(orDash(a.Name)), plain(orDash(a.Email)), plain(f.when(a.CreatedAt))}
				},
				id:    func(a api.Account) string { return a.ID },
				empty: "No accounts yet. 'berth account create NAME' makes one.",
			}))
		}),
	}
	f.quietly(cmd, "ids")
	return f.online(cmd)
}

func (f *frame) accountRm() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"delete"},
		Short:   "Delete accounts and revoke their keys",
		Long: `Delete accounts for good and revoke their keys. A terminal is asked first. Their conversations and sandboxes
stay, for keys that belong to no account.`,
		Example: "  berth account rm 01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10",
		Args:    takes(1, -1, "the ID of at least one account; 'berth account ls' shows them"),
		RunE: run(func(ctx context.Context, ids []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return f.each(ctx, removal{
				question: "Delete account %s and revoke its keys?",
				word:     "deleted",
				do:       func(ctx context.Context, id string) error { return c.explain(c.Accounts.Delete(ctx, id)) },
			}, ids)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.confirmed(cmd)
	return f.online(cmd)
}
