package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
)

func (f *frame) keys() *cobra.Command {
	return group(&cobra.Command{
		Use:     "keys",
		Short:   "Make, list and revoke API keys",
		Long:    "Make, list and revoke API keys. All of it needs a key with the scope admin, such as the server's first.",
		Example: "  berth keys create ci --scope write\n  berth keys ls\n  berth keys revoke ID",
	}, f.keysCreate(), f.keysLs(), f.keysRevoke())
}

// keyWish is what the flags of keys create ask for.
type keyWish struct {
	api.CreateKey
	scope   string
	expires string
}

func (f *frame) keysCreate() *cobra.Command {
	var want keyWish
	cmd := &cobra.Command{
		Use:   "create [LABEL]",
		Short: "Make an API key and print its secret, this once",
		Long: `Make an API key. The secret goes to stdout, this once: the server keeps only a hash of it.

Scopes include each other: read sees, write changes, admin manages keys and accounts.`,
		Example: `  berth keys create ci
  berth keys create dashboard --scope read --expires 720h
  berth keys create deploy -q > deploy.key
  berth keys create first --tenant acme --scope admin`,
		Args: takes(0, 1, "one LABEL"),
		RunE: run(func(ctx context.Context, args []string) error {
			want.Label = first(args...)
			return f.runKeysCreate(ctx, want)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := f.online(cmd).Flags()
	flags.StringVar(&want.scope, "scope", "write", "`SCOPE`, what it may do: read, write or admin")
	flags.StringVar(&want.expires, "expires", "", "`WHEN` it ends: a duration such as 720h, or a time such as 2027-01-31T00:00:00Z (default: never)")
	flags.StringVar(&want.Tenant, "tenant", "", "`NAME` of the tenant it is for, made if there is none (default: that of the key in use)")
	flags.StringVar(&want.AccountID, "account", "", "`ID` of the account it belongs to")
	f.quietly(cmd, "the secret")
	offer(cmd, "scope", []string{"read", "write", "admin"})
	return cmd
}

func (f *frame) runKeysCreate(ctx context.Context, want keyWish) (err error) {
	want.Scope = api.Scope(want.scope)
	if want.ExpiresAt, err = f.expiry(want.expires); err != nil {
		return err
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	key, err := c.Keys.Create(ctx, want.CreateKey)
	switch {
	case err != nil:
		return c.explain(err)
	case f.json:
		return writeJSON(f.out, key)
	}
	f.notef("Key %s with scope %s. Its secret is shown this once; use it as BERTH_API_KEY:", clean(key.ID), clean(string(key.Scope)))
	_, err = fmt.Fprintln(f.out, clean(key.Secret))
	return err
}

func (f *frame) expiry(given string) (*time.Time, error) {
	if given == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(given); err == nil && d > 0 {
		at := f.now().Add(d).UTC()
		return &at, nil
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil || !at.After(f.now()) {
		return nil, &usageError{fmt.Sprintf("--expires %q is no time to come", given), "Write a duration such as 720h, or a time such as 2027-01-31T00:00:00Z."}
	}
	return &at, nil
}

func (f *frame) keysLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List API keys",
		Long:    "List the API keys of your tenant, revoked and expired ones too. Secrets are not stored and not shown.",
		Example: "  berth keys ls\n  berth keys ls --json",
		Args:    takes(0, 0, ""),
		RunE:    run(func(ctx context.Context, _ []string) error { return f.runKeysLs(ctx) }),
	}
	f.quietly(cmd, "ids")
	return f.online(cmd)
}

func (f *frame) runKeysLs(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	return c.explain(show(f, c.Keys.List(ctx), listing[api.Key]{
		columns: []string{"ID", "KEY", "SCOPE", "LABEL", "STATUS", "CREATED", "LAST USED"},
		row: func(k api.Key) []cell {
			status, colour := f.keyStatus(k)
			return []cell{plain(k.ID), plain(k.Prefix + "…"), plain(string(k.Scope)), plain(orDash(k.Label)),
				{status, colour}, plain(f.when(k.CreatedAt)), plain(f.whenever(k.LastUsedAt))}
		},
		id: func(k api.Key) string { return k.ID },
	}))
}

func (f *frame) keyStatus(k api.Key) (string, colour) {
	switch {
	case k.RevokedAt != nil:
		return "revoked", dim
	case k.ExpiresAt != nil && !k.ExpiresAt.After(f.now()):
		return "expired", dim
	}
	return "active", green
}

func (f *frame) keysRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID...",
		Short:   "End API keys at once",
		Long:    "End API keys at once. A terminal is asked first. A revoked key stays in the list and never works again.",
		Example: "  berth keys revoke 01970e4b-7f5c-7d31-9d0a-3f6f2f1f7a10",
		Args:    takes(1, -1, "the ID of at least one key; 'berth keys ls' shows them"),
		RunE: run(func(ctx context.Context, ids []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return f.each(ctx, removal{
				question: "Revoke key %s? Whatever uses it stops working.",
				word:     "revoked",
				do:       func(ctx context.Context, id string) error { return c.explain(c.Keys.Revoke(ctx, id)) },
			}, ids)
		}),
		ValidArgsFunction: f.completeKeys,
	}
	f.confirmed(cmd)
	return f.online(cmd)
}
