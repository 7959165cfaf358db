package auth

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// DefaultTenant is the tenant of a server that nobody divided.
const DefaultTenant store.TenantID = "default"

// First is what came of Bootstrap.
type First struct {
	Made string // the admin key, if it was made just now: show it, for nobody will again
	Kept string // the admin key in File, whenever it was made: for a redactor to know
	File string // where it is kept; empty if it is kept nowhere here

	// Elsewhere says that nothing was made, because an admin key of this database is known to
	// somebody else already.
	Elsewhere bool
}

// Bootstrap makes sure that the default tenant has an admin key: the one given (BERTH_API_KEY), of
// which only the hash is stored, or else the one kept in the data directory, which is made on the
// first start. Of many replicas that call it, one acts at a time.
//
// A given key ends the one given before it, and is an error if it was itself revoked. A kept key that
// was lost, or revoked since, is replaced by a new one; but a database that servers may share gets no
// new one for every empty data directory while it has a live one.
func Bootstrap(ctx context.Context, db *store.DB, dataDir, given string) (first First, err error) {
	if err := db.EnsureTenant(ctx, DefaultTenant, "Default"); err != nil {
		return First{}, err
	}
	err = db.Alone(ctx, func() error {
		if given != "" {
			return adopt(ctx, db, given)
		}
		first, err = bootstrapHere(ctx, db, dataDir)
		return err
	})
	return first, err
}

// bootstrapHere leaves it to others to have the key, if the database is shared and they do.
func bootstrapHere(ctx context.Context, db *store.DB, dataDir string) (First, error) {
	_, err := os.Stat(filepath.Join(dataDir, AdminKeyFile))
	if db.Engine() == "postgres" && errors.Is(err, fs.ErrNotExist) {
		has, err := db.In(DefaultTenant).HasLiveKey(ctx, string(api.ScopeAdmin))
		if err != nil || has {
			return First{Elsewhere: has}, err
		}
	}
	return bootstrapKept(ctx, db, dataDir)
}

const keptLabel = "made at the first start"

// bootstrapKept makes the key in the data directory the admin key.
func bootstrapKept(ctx context.Context, db *store.DB, dataDir string) (First, error) {
	first := First{File: filepath.Join(dataDir, AdminKeyFile)}
	key, made, err := keep(dataDir, AdminKeyFile, Generate)
	if err != nil {
		return First{}, keepError("keep admin key", dataDir, err)
	}
	_, err = record(ctx, db, key, keptLabel)
	if errors.Is(err, errDead) {
		key, made = Generate(), true
		if err := replace(dataDir, first.File, key); err != nil {
			return First{}, keepError("keep admin key", dataDir, err)
		}
		_, err = record(ctx, db, key, keptLabel)
	}
	if sandbox.CodeOf(err) == api.CodeUnauthenticated {
		return First{}, unfit("use "+first.File, err, "Remove the file to have a new key made.")
	}
	if first.Kept = key; made {
		first.Made = key
	}
	return first, err
}

const givenLabel = "BERTH_API_KEY"

// adopt records the key that the operator chose, in place of those chosen before.
func adopt(ctx context.Context, db *store.DB, given string) error {
	id, err := record(ctx, db, given, givenLabel)
	switch {
	case err == nil:
		return db.In(DefaultTenant).RevokeOthers(ctx, givenLabel, id)
	case sandbox.CodeOf(err) != api.CodeUnauthenticated:
		return err
	}
	return unfit("use BERTH_API_KEY", err, "Set BERTH_API_KEY to another key, or unset it to use the one in the data directory.")
}

func unfit(op string, err error, hint string) error {
	e := sandbox.Errorf(op, api.CodeInvalidConfig, "%w", err)
	e.Hint = hint
	return e
}

// errDead matches a key that is recorded but may not be used any more.
var errDead = errors.New("it was revoked or has expired")

// record makes the key an admin key of the default tenant, unless it is one already, and returns its id.
func record(ctx context.Context, db *store.DB, key, label string) (id string, err error) {
	if err := CheckFormat(key); err != nil {
		return "", err
	}
	row := store.Key{Label: label, Prefix: Prefix(key), Scopes: []string{string(api.ScopeAdmin)}}
	made, err := db.In(DefaultTenant).CreateKey(ctx, row, Hash(key))
	if sandbox.CodeOf(err) != api.CodeConflict {
		return made.ID, err
	}
	known, err := db.KeyByHash(ctx, Hash(key))
	if err != nil {
		return "", err
	}
	return known.ID, usable(known)
}

func usable(k store.Key) error {
	const op = "check admin key"
	switch {
	case !k.Live(time.Now()):
		return sandbox.Errorf(op, api.CodeUnauthenticated, "the key cannot be the admin key: %w", errDead)
	case k.Tenant != DefaultTenant || !Includes(Highest(k.Scopes), api.ScopeAdmin):
		return sandbox.Errorf(op, api.CodeUnauthenticated, "the key cannot be the admin key: it is one of scope %s in tenant %s already", Highest(k.Scopes), k.Tenant)
	}
	return nil
}
