// Package storetest provides databases for the tests of other packages. [Postgres] returns an empty one with the
// current schema; SQLite needs only a directory.
package storetest

import (
	"context"
	"crypto/sha256"
	"testing"

	"github.com/berthdev/berth/internal/seal"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

var schema = pgtest.NewTemplate(func(ctx context.Context, url string) error {
	_, err := store.Migrate(ctx, store.Options{DatabaseURL: url})
	return err
})

// Postgres returns the URL of a new database for t, cloned from a migrated template. The test's TestMain must run
// under pgtest.Main.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	return schema.New(t).URL
}

// Ring returns a ring of test keys with the given fingerprints, newest first.
func Ring(fingerprints ...string) *seal.Ring {
	var keys []seal.Key
	for _, fingerprint := range fingerprints {
		sum := sha256.Sum256([]byte(fingerprint))
		k, err := seal.NewKey(fingerprint, sum[:])
		if err != nil {
			panic(err)
		}
		keys = append(keys, k)
	}
	return seal.NewRing(keys[0], keys[1:]...)
}

// Unlock gives a store a secret, as a server does at its start. All stores get the same secret.
func Unlock(t testing.TB, db *store.DB) *store.DB {
	t.Helper()
	if err := UseSecret(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// UseSecret is Unlock for code without a testing.TB.
func UseSecret(ctx context.Context, db *store.DB) error {
	return db.WithSchemaLock(ctx, func() error { return db.Secrets().Use(ctx, Ring("test")) })
}
