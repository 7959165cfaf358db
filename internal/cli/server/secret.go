package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/fault"
)

func (a *app) secret() *cobra.Command {
	return ui.Group(&cobra.Command{
		Use:   "secret",
		Short: "Manage secrets",
		Long: `Set, list and delete the secrets of your tenant: keys and tokens that its sandboxes get as variables. Setting and
deleting them needs a key with the scope admin.

status and forget are about the root secret of a server, which encrypts all values in its database. Root secrets
are named by their fingerprints, which /readyz and the server's errors show. No secret is ever shown.`,
		Example: "  berth secret set ANTHROPIC_API_KEY\n  berth secret ls\n  berth secret status",
	}, a.secretSet(), a.secretLs(), a.secretRm(), a.secretStatus(), a.secretForget())
}

func (a *app) secretStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which root secrets the database needs",
		Long: `Show which root secrets the database needs and how many stored values are encrypted with each. The
secrets themselves are not needed. SQLite can be read while no server uses it, PostgreSQL at any time;
/readyz of a running server shows the same.`,
		Example: "  berth secret status\n  berth secret status --database-url postgres://berth@db/berth --json",
		Args:    ui.Args(0, 0, ""),
	}
	load := a.Settings(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		found, err := a.Secrets(ctx, cfg)
		if fault.CodeOf(err) == api.CodeDataDirLocked {
			return ui.Hint(err, "A running server has the database: 'berth doctor' and its /readyz show the secrets it needs. PostgreSQL can be asked at any time.")
		}
		if err != nil {
			return err
		}
		return a.showSecrets(found)
	})
	return cmd
}

func (a *app) secretForget() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget FINGERPRINT",
		Short: "Forget a lost root secret",
		Long: `Forget a root secret that is lost, so that the server can start with a new one. At a terminal it asks
first.

Nothing is deleted: values that are encrypted with the lost secret stay and cannot be read. Sandboxes
with such variables answer 'secret_unreadable' and do not start; their files and versions can be read,
and they can be deleted. If the secret is found later, put it into secret_key_previous; the values can
then be read again.

No server may have the secret, and SQLite must not be in use.`,
		Example:           "  berth secret forget 3f9a1c02b7de\n  berth secret forget --yes 3f9a1c02b7de",
		Args:              ui.Args(1, 1, "the FINGERPRINT of one secret; 'berth secret status' shows them"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	load := a.Settings(cmd)
	a.YesFlag(cmd)
	cmd.RunE = ui.Run(func(ctx context.Context, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if err := a.Confirm(ctx, "Give up the secret "+args[0]+"? Values encrypted with it cannot be read until it is found."); err != nil {
			return err
		}
		left, err := a.ForgetSecret(ctx, cfg, args[0])
		if err != nil {
			return err
		}
		return a.showSecrets(left)
	})
	return cmd
}

func (a *app) showSecrets(s api.Secrets) error {
	if a.JSON {
		return ui.WriteJSON(a.Out, s)
	}
	current := s.Current
	if current == "" {
		current = "none; the next start of the server uses its own, or makes one"
	}
	if _, err := fmt.Fprintln(a.Out, "current:", ui.Clean(current)); err != nil {
		return err
	}
	for _, fingerprint := range slices.Sorted(maps.Keys(s.Values)) {
		lost := ""
		if slices.Contains(s.Lost, fingerprint) {
			lost = " (declared lost: cannot be read)"
		}
		if _, err := fmt.Fprintf(a.Out, "%s: %s%s\n", ui.Clean(fingerprint), ui.Plural(int(s.Values[fingerprint]), "value", "values"), lost); err != nil {
			return err
		}
	}
	if s.Plain > 0 {
		_, err := fmt.Fprintf(a.Out, "not encrypted yet: %s\n", ui.Plural(int(s.Plain), "value", "values"))
		return err
	}
	return nil
}
