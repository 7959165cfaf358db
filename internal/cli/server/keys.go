package server

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) keys() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:     "keys",
		Short:   "Manage API keys",
		Long:    `Manage API keys. This needs a key with the scope admin, such as the server's first key.`,
		Example: "  berth keys create ci --scope write\n  berth keys ls\n  berth keys revoke ID",
	}, a.keysCreate(), a.keysLs(), a.keysRevoke())
}

// keyRequest holds the flags of keys create.
type keyRequest struct {
	api.CreateKey
	scope   string
	expires string
}

func (a *app) keysCreate() *cobra.Command {
	var want keyRequest
	cmd := &cobra.Command{
		Use:   "create [LABEL]",
		Short: "Create an API key and print its secret once",
		Long: `Create an API key. Its secret is printed to stdout, only this once: the server keeps only a hash of it.

Each scope includes the one before it: read can see, write can change, admin can manage keys and
accounts.`,
		Example: `  berth keys create ci
  berth keys create dashboard --scope read --expires 720h
  berth keys create deploy -q > deploy.key
  berth keys create first --tenant acme --scope admin`,
		Args: ui.Args(0, 1, "one LABEL"),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			want.Label = ui.First(args...)
			return a.runKeysCreate(ctx, want)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := a.Online(cmd).Flags()
	flags.StringVar(&want.scope, "scope", "write", "`SCOPE`, what it may do: read, write or admin")
	flags.StringVar(&want.expires, "expires", "", "`WHEN` it ends: a duration such as 720h, or a time such as 2027-01-31T00:00:00Z (default: never)")
	flags.StringVar(&want.Tenant, "tenant", "", "`NAME` of the tenant it is for, made if there is none (default: that of the key in use)")
	flags.StringVar(&want.AccountID, "account", "", "`ID` of the account it belongs to")
	a.QuietFlag(cmd, "the secret")
	ui.Offer(cmd, "scope", []string{"read", "write", "admin"})
	return cmd
}

func (a *app) runKeysCreate(ctx context.Context, want keyRequest) (err error) {
	want.Scope = api.Scope(want.scope)
	if want.ExpiresAt, err = a.expiry(want.expires); err != nil {
		return err
	}
	c, err := a.Connect()
	if err != nil {
		return err
	}
	key, err := c.Keys.Create(ctx, want.CreateKey)
	switch {
	case err != nil:
		return c.Explain(err)
	case a.JSON:
		return ui.WriteJSON(a.Out, key)
	}
	a.Notef("Key %s with scope %s. Its secret is shown this once; use it as BERTH_API_KEY:", ui.Clean(key.ID), ui.Clean(string(key.Scope)))
	_, err = fmt.Fprintln(a.Out, ui.Clean(key.Secret))
	return err
}

func (a *app) expiry(given string) (*time.Time, error) {
	if given == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(given); err == nil && d > 0 {
		at := a.Now().Add(d).UTC()
		return &at, nil
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil || !at.After(a.Now()) {
		return nil, ui.Usage(fmt.Sprintf("--expires %q is no time to come", given), "Write a duration such as 720h, or a time such as 2027-01-31T00:00:00Z.")
	}
	return &at, nil
}

func (a *app) keysLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List API keys",
		Long:    "List the API keys of your tenant, revoked and expired ones too. Secrets are not stored and not shown.",
		Example: "  berth keys ls\n  berth keys ls --json",
		Args:    ui.Args(0, 0, ""),
		RunE:    ui.Run(func(ctx context.Context, _ []string) error { return a.runKeysLs(ctx) }),
	}
	a.WideFlag(cmd)
	a.QuietFlag(cmd, "ids")
	return a.Online(cmd)
}

func (a *app) runKeysLs(ctx context.Context) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	return c.Explain(ui.Show(a.UI, c.Keys.List(ctx), ui.Listing[api.Key]{
		Columns: []string{"ID", "KEY", "SCOPE", "LABEL", "STATUS", "CREATED", "LAST USED"},
		Drop:    []string{"CREATED", "KEY"},
		Row: func(k api.Key) []ui.Cell {
			status, colour := a.keyStatus(k)
			return []ui.Cell{ui.Plain(a.ShortID(k.ID)), ui.Plain(k.Prefix + "…"), ui.Plain(string(k.Scope)), ui.Plain(ui.OrDash(k.Label)),
				ui.Coloured(status, colour), ui.Plain(a.Time(k.CreatedAt)), ui.Plain(a.TimeOrDash(k.LastUsedAt))}
		},
		ID: func(k api.Key) string { return k.ID },
	}))
}

func (a *app) keyStatus(k api.Key) (string, ui.Colour) {
	switch {
	case k.RevokedAt != nil:
		return "revoked", ui.Dim
	case k.ExpiresAt != nil && !k.ExpiresAt.After(a.Now()):
		return "expired", ui.Dim
	}
	return "active", ui.Green
}

func (a *app) keysRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke API keys",
		Long: `Revoke API keys at once. At a terminal it asks first. A revoked key stays in the list and never works
again.`,
		Example: "  berth keys revoke 01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10",
		Args:    ui.Args(1, -1, "the ID of at least one key; 'berth keys ls' shows them"),
		RunE: ui.Run(func(ctx context.Context, ids []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.RemoveEach(ctx, remote.Removal{
				Question: "Revoke key %s? Whatever uses it stops working.",
				Word:     "revoked",
				Do:       func(ctx context.Context, id string) error { return c.Explain(c.Keys.Revoke(ctx, id)) },
			}, ids)
		}),
		ValidArgsFunction: a.completeKeys,
	}
	a.YesFlag(cmd)
	return a.Online(cmd)
}

func (a *app) completeKeys(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := func(ctx context.Context, c *remote.Connection) iter.Seq2[api.Key, error] { return c.Keys.List(ctx) }
	return remote.Complete(cmd.Context(), a.Remote, args, list, func(k api.Key) remote.Candidate {
		if k.RevokedAt != nil {
			return remote.Candidate{}
		}
		return remote.Candidate{Word: k.ID, About: k.Label}
	})
}
