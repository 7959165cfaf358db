package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// openSecret loads the root secret and makes the database encrypt with it. A System that only stops sandboxes needs no
// secret, because it reads no environments.
func (s *System) openSecret(ctx context.Context) error {
	if s.stopOnly {
		return nil
	}
	from := auth.SecretSource{DataDir: s.cfg.DataDir, Given: s.cfg.SecretKey.Reveal()}
	for _, previous := range s.cfg.SecretKeyPrevious {
		from.Previous = append(from.Previous, previous.Reveal())
	}
	root, err := auth.UseSecret(ctx, s.store, from)
	if err == nil {
		s.openAgentServers(root)
		s.roots, err = from.Roots(root)
	}
	s.templates.UseSecrets(s.secretValues)
	return err
}

// secretValues returns the values of a tenant's secrets with the names. The redactor of logs does not get them: it only
// grows, and tenants may set any number of values one after the other.
func (s *System) secretValues(ctx context.Context, tenant string, names []string) (map[string]string, error) {
	return s.store.In(store.TenantID(tenant)).Secrets().Values(ctx, names)
}

// turnSecrets adds the secrets that an agent in the sandbox may print to the redactor: the tenant's, and the variables of
// the server, the template and the sandbox that are secrets. It reports whether the template wants them replaced.
func (s *System) turnSecrets(ctx context.Context, sb sandbox.Sandbox, into *telemetry.Redactor) (bool, error) {
	if err := s.headers.refresh(ctx, sb); err != nil {
		return false, err
	}
	t, _ := s.templates.Lookup(sb.Spec.Template) // without its template, a sandbox still has its own variables
	if !t.Redacts() {
		return false, nil
	}
	add := func(name, value string) { into.AddNamed(name, value) }
	own, err := s.secretValues(ctx, sb.Owner.Tenant, nil)
	if fault.CodeOf(err) == api.CodeSecretUnreadable { // an agent cannot have it either
		s.log.WarnContext(ctx, "a secret cannot be read, and is not replaced in what the agent prints", "error", err)
		err = nil
	}
	for name, value := range own {
		add(name, value)
	}
	for name, value := range sb.Spec.Env {
		if t.NamesSecret(name) {
			add(name, value)
		}
	}
	s.templates.SecretVariables(sb.Owner.Tenant, t.Name, add)
	return true, err
}

// checkSecrets returns the check of the root secret for /readyz.
func (s *System) checkSecrets(ctx context.Context) api.Check {
	state, err := s.store.Secrets().State(ctx)
	if err != nil {
		return api.Check{Name: "secret", Status: "warning", Detail: err.Error(), Fix: "The database must answer; then this is looked at again."}
	}
	return secretsCheck(state)
}

// secretsCheck returns the check of the root secret. It lists the previous secrets that are still needed, and warns if a
// new secret is not used yet because other servers do not know it.
func secretsCheck(state store.SecretState) api.Check {
	c := api.Check{Name: "secret", Status: "ok", Detail: "values are encrypted with the secret " + state.Writes}
	if plain := state.Values[""]; plain > 0 {
		c.Detail += fmt.Sprintf("; %d are still in plain text and are encrypted soon", plain)
	}
	var needed []string
	for _, previous := range state.Known {
		if n := state.Values[previous]; previous != state.Writes && n > 0 {
			needed = append(needed, fmt.Sprintf("%s (%d values)", previous, n))
		}
	}
	if len(needed) > 0 {
		c.Detail += "; still needed: " + strings.Join(needed, ", ")
	}
	if unneeded := state.Unneeded(); len(unneeded) > 0 {
		c.Detail += "; no longer needed in secret_key_previous: " + strings.Join(unneeded, ", ")
	}
	switch {
	case len(state.Waiting) > 0:
		c.Status = "warning"
		c.Detail += fmt.Sprintf("; the new secret %s is not used yet, because servers do not know it: %s", state.Known[0], strings.Join(state.Waiting, "; "))
		c.Fix = "Restart those servers with the new secret_key, and the old one in secret_key_previous."
	case state.Unclean:
		c.Status = "warning"
		c.Detail += "; berth.db may still hold values as they were before they were encrypted"
		c.Fix = "Make room for a second copy of berth.db in the data directory, and restart the server."
	case len(state.Lost) > 0:
		if n := lostValues(state); n > 0 {
			c.Status = "warning"
			c.Detail += fmt.Sprintf("; %d values cannot be read, because their secret was declared lost: %s", n, strings.Join(state.Lost, ", "))
			c.Fix = "If the secret is found, put it into secret_key_previous; otherwise delete the sandboxes, conversations and agents that have them."
		}
	}
	return c
}

func lostValues(state store.SecretState) (n int64) {
	for _, lost := range state.Lost {
		n += state.Values[lost]
	}
	return n
}

// Secrets returns the secrets that the database needs, by fingerprint. It works without a secret.
func Secrets(ctx context.Context, cfg *config.Loaded) (api.Secrets, error) {
	if err := requireDatabase(cfg); err != nil {
		return api.Secrets{}, err
	}
	state, err := store.ReadSecrets(ctx, storeOptions(cfg, slog.New(slog.DiscardHandler)))
	return secretsOf(state), err
}

// ForgetSecret records that a secret is lost. It returns the number of values that each secret encrypts.
func ForgetSecret(ctx context.Context, cfg *config.Loaded, fingerprint string) (left api.Secrets, err error) {
	if err := requireDatabase(cfg); err != nil {
		return left, err
	}
	o := storeOptions(cfg, slog.New(slog.DiscardHandler))
	o.SkipMigrate = true
	db, err := store.Open(ctx, o)
	if err != nil {
		return left, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.WithSchemaLock(ctx, func() error { return db.Secrets().Forget(ctx, fingerprint) }); err != nil {
		return left, err
	}
	state, err := db.Secrets().State(ctx)
	return secretsOf(state), err
}

// requireDatabase returns an error if there is no SQLite database, so that none is created. It does not check
// PostgreSQL.
func requireDatabase(cfg *config.Loaded) error {
	if cfg.DatabaseURL != "" {
		return nil
	}
	path := filepath.Join(cfg.DataDir, store.SQLiteFile)
	if _, err := os.Stat(path); err != nil {
		e := fault.Errorf("open database", api.CodeInvalidConfig, "there is no database: %w", err)
		e.Hint = "Name the server's data directory with --data-dir (BERTH_DATA_DIR), or its database with --database-url (DATABASE_URL)."
		return e
	}
	return nil
}

func secretsOf(state store.SecretState) api.Secrets {
	out := api.Secrets{Current: state.Current, Plain: state.Values[""], Values: map[string]int64{}, Lost: state.Lost}
	for fingerprint, n := range state.Values {
		if fingerprint != "" {
			out.Values[fingerprint] = n
		}
	}
	return out
}
