package auth

import (
	"os"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// onBoth runs the test on a fresh SQLite and on a fresh PostgreSQL. Each call of open is a replica.
func onBoth(t *testing.T, test func(t *testing.T, open func() *store.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		db := openStore(t, store.Options{DataDir: t.TempDir()})
		test(t, func() *store.DB { return db })
	})
	t.Run("postgres", func(t *testing.T) {
		url := storetest.Postgres(t)
		test(t, func() *store.DB { return openStore(t, store.Options{DatabaseURL: url}) })
	})
}

func openStore(t *testing.T, opts store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func wantCode(t *testing.T, err error, want api.Code) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != want {
		t.Fatalf("error %v, want code %s", err, want)
	}
}
