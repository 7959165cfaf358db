package auth

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// DefaultTenant is the tenant of a server without configured tenants.
const DefaultTenant store.TenantID = "default"

// First is the result of Bootstrap: the admin key and its location.
type First struct {
	Made string // admin key that Bootstrap created, to be shown once; empty: none was created
	Kept string // admin key in File; must be redacted in logs
	File string // file with the admin key; empty: none

	// Elsewhere reports whether no key was created because the database has an admin key of another server.
	Elsewhere bool
}

// Bootstrap ensures that the default tenant has an admin key. This is the given key (BERTH_API_KEY), of which only the
// hash is stored, or else a key in the data directory, which is created at the first start. Concurrent servers run
// Bootstrap one at a time.
//
// A given key revokes the keys that were given before. A given key that was revoked is an error. A key in the data
// directory that was lost or revoked is replaced. If the data directory has no key, but a PostgreSQL database has a
// valid admin key, no key is created.
func Bootstrap(ctx context.Context, db *store.DB, dataDir, given string) (first First, err error) {
	if err := db.Tenants().Ensure(ctx, DefaultTenant, "Default"); err != nil {
		return First{}, err
	}
	err = db.WithSchemaLock(ctx, func() error {
		if given = strings.TrimSpace(given); given != "" { // a key from a file may end with a newline
			return useGivenKey(ctx, db, given)
		}
		first, err = bootstrapWithoutGivenKey(ctx, db, dataDir)
		return err
	})
	return first, err
}

// bootstrapWithoutGivenKey makes the key in the data directory the admin key. It creates no key if the database is
// PostgreSQL and has a valid admin key.
func bootstrapWithoutGivenKey(ctx context.Context, db *store.DB, dataDir string) (First, error) {
	_, err := os.Stat(filepath.Join(dataDir, AdminKeyFile))
	if db.Engine() == "postgres" && errors.Is(err, fs.ErrNotExist) {
		has, err := db.In(DefaultTenant).Keys().HasLive(ctx, string(api.ScopeAdmin))
		if err != nil || has {
			return First{Elsewhere: has}, err
		}
	}
	return useStoredKey(ctx, db, dataDir)
}

const storedKeyLabel = "made at the first start"

// useStoredKey makes the key in the data directory the admin key. It creates the key if there is none, or if the key
// was revoked or has expired.
func useStoredKey(ctx context.Context, db *store.DB, dataDir string) (First, error) {
	first := First{File: filepath.Join(dataDir, AdminKeyFile)}
	key, made, err := keep(dataDir, AdminKeyFile, Generate)
	if err != nil {
		return First{}, keepError("keep admin key", dataDir, err)
	}
	_, err = record(ctx, db, key, storedKeyLabel)
	if errors.Is(err, errDead) {
		key, made = Generate(), true
		if err := replace(dataDir, first.File, key); err != nil {
			return First{}, keepError("keep admin key", dataDir, err)
		}
		_, err = record(ctx, db, key, storedKeyLabel)
	}
	if fault.CodeOf(err) == api.CodeUnauthenticated {
		return First{}, invalidConfig("use "+first.File, err, "Remove the file to have a new key made.")
	}
	if first.Kept = key; made {
		first.Made = key
	}
	return first, err
}

const givenKeyLabel = "BERTH_API_KEY"

// useGivenKey records the operator's key as an admin key and revokes the keys that it recorded before.
func useGivenKey(ctx context.Context, db *store.DB, given string) error {
	id, err := record(ctx, db, given, givenKeyLabel)
	switch {
	case err == nil:
		return db.In(DefaultTenant).Keys().RevokeOthers(ctx, givenKeyLabel, id)
	case fault.CodeOf(err) != api.CodeUnauthenticated:
		return err
	}
	return invalidConfig("use BERTH_API_KEY", err, "Set BERTH_API_KEY to another key, or unset it to use the one in the data directory.")
}

func invalidConfig(op string, err error, hint string) error {
	e := fault.Errorf(op, api.CodeInvalidConfig, "%w", err)
	e.Hint = hint
	return e
}

// errDead is the error of a recorded key that was revoked or has expired.
var errDead = errors.New("it was revoked or has expired")

// record makes the key an admin key of the default tenant, if it is not one yet, and returns its id.
func record(ctx context.Context, db *store.DB, key, label string) (id string, err error) {
	if err := CheckFormat(key); err != nil {
		return "", err
	}
	row := store.Key{Label: label, Prefix: Prefix(key), Scopes: []string{string(api.ScopeAdmin)}}
	made, err := db.In(DefaultTenant).Keys().Create(ctx, row, Hash(key))
	if fault.CodeOf(err) != api.CodeConflict {
		return made.ID, err
	}
	known, err := db.APIKeys().ByHash(ctx, Hash(key))
	if err != nil {
		return "", err
	}
	return known.ID, checkAdminKey(known)
}

func checkAdminKey(k store.Key) error {
	const op = "check admin key"
	switch {
	case !k.Live(time.Now()):
		return fault.Errorf(op, api.CodeUnauthenticated, "the key cannot be the admin key: %w", errDead)
	case k.Tenant != DefaultTenant || !Includes(Highest(k.Scopes), api.ScopeAdmin):
		return fault.Errorf(op, api.CodeUnauthenticated, "the key cannot be the admin key: it is one of scope %s in tenant %s already", Highest(k.Scopes), k.Tenant)
	}
	return nil
}
