package store_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// A migration that a server does not know makes it leave, also one whose number is lower than those it knows: two
// branches may have added theirs in either order.
func TestUnknownMigrationIsANewerSchema(t *testing.T) {
	testkit.Proves(t, "X3")
	url := storetest.Postgres(t)
	db, err := store.Open(t.Context(), store.Options{DatabaseURL: url})
	noError(t, err)
	defer db.Close()
	raw, err := sql.Open("pgx", url)
	noError(t, err)
	defer raw.Close()
	_, err = raw.ExecContext(t.Context(), `insert into goose_db_version (version_id, is_applied)
		select min(n), true from generate_series(1, 1000) n where n not in (select version_id from goose_db_version)`)
	noError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err = db.WatchSchema(ctx); err == nil {
		t.Fatal("it was not noticed")
	}
	if wantCode(t, err, api.CodeSchemaTooNew); !strings.Contains(err.Error(), "migration") && !strings.Contains(err.Error(), "schema version") {
		t.Error(err)
	}
	if db.Health() == nil {
		t.Error("the database counts as healthy")
	}
}
