// Package storetest gives the tests of other packages databases to open stores on. [Postgres] is a
// fresh one with the present schema; SQLite needs nothing but a directory.
package storetest

import (
	"context"
	"testing"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

var schema = pgtest.NewTemplate(func(ctx context.Context, url string) error {
	_, err := store.Migrate(ctx, store.Options{DatabaseURL: url})
	return err
})

// Postgres returns the URL of a database for t alone, cloned from one that was migrated once. The
// test's TestMain must run under pgtest.Main.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	return schema.New(t).URL
}
