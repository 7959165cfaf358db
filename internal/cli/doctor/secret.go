package doctor

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/store"
)

// rootSecret compares the root secrets of the server's configuration with those that the database needs.
func rootSecret(ctx context.Context, s Subject) finding {
	cfg := s.Config
	from := auth.SecretSource{DataDir: cfg.DataDir, Given: cfg.SecretKey.Reveal()}
	for _, previous := range cfg.SecretKeyPrevious {
		from.Previous = append(from.Previous, previous.Reveal())
	}
	known, err := from.Fingerprints()
	if err != nil {
		return fail("restore the file from a backup, or set secret_key (BERTH_SECRET_KEY)", "%v", err)
	}
	if cfg.DatabaseURL == "" {
		if _, err := os.Stat(filepath.Join(cfg.DataDir, sqliteFile)); err != nil {
			return fine("no database needs one yet")
		}
		if _, held := lockHolder(cfg.DataDir); held {
			return fine("the running server has checked it")
		}
	}
	state, err := store.ReadSecrets(ctx, store.Options{DataDir: cfg.DataDir, DatabaseURL: cfg.DatabaseURL.Reveal(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return warn("see the check of the database", "not compared with the database: %v", err)
	}
	return secretFinding(known, state)
}

// secretFinding compares the fingerprints of the configured secrets with those that the database needs.
func secretFinding(known []string, state store.SecretState) finding {
	current := state.Current
	const fix = "give the server that secret in secret_key (BERTH_SECRET_KEY) or secret_key_previous, or restore secret.key from a backup; the runbook says what to do if it is lost"
	needed := slices.DeleteFunc(slices.Sorted(maps.Keys(state.Values)), func(fingerprint string) bool {
		return fingerprint == "" || slices.Contains(known, fingerprint) || slices.Contains(state.Lost, fingerprint)
	})
	switch {
	case current == "" && len(needed) == 0:
		return fine("the database has none yet; the server encrypts with its own")
	case current != "" && !slices.Contains(known, current):
		return fail(fix, "the database is encrypted with the secret %s, which a server would not have", current)
	case len(needed) > 0:
		return fail(fix, "stored values need the secret %s, which a server would not have", strings.Join(needed, ", "))
	case state.Values[""] > 0:
		return warn("start the server: it encrypts them", "%d stored values are not encrypted yet", state.Values[""])
	}
	state.Writes, state.Known = current, known
	if unneeded := state.Unneeded(); len(unneeded) > 0 {
		return fine("the database is encrypted with %s; no longer needed in secret_key_previous: %s", current, strings.Join(unneeded, ", "))
	}
	return fine("the database is encrypted with %s", current)
}
