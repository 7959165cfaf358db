package sqltranscript

import (
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/transcripttest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func open(t *testing.T, o store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSQLite(t *testing.T) {
	testkit.Proves(t, "C5", "C6")
	transcripttest.Run(t, func(t *testing.T) transcript.Store {
		return New(open(t, store.Options{DataDir: t.TempDir()}))
	})
}

func TestPostgres(t *testing.T) {
	testkit.Proves(t, "C5", "C6")
	transcripttest.Run(t, func(t *testing.T) transcript.Store {
		return New(open(t, store.Options{DatabaseURL: storetest.Postgres(t)}))
	})
	url := storetest.Postgres(t)
	t.Run("Replicas", func(t *testing.T) {
		o := store.Options{DatabaseURL: url}
		transcripttest.Race(t, New(open(t, o)), New(open(t, o)))
	})
}

func TestDamagedBodies(t *testing.T) {
	db := open(t, store.Options{DataDir: t.TempDir()})
	s := New(db)
	if err := db.In("acme").Messages().Put(t.Context(), "c", store.StoredMessage{ID: "m", Body: "{"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "acme", "c", "m")
	_, _, listed := s.List(t.Context(), "acme", "c", transcript.Page{})
	for _, err := range []error{err, listed} {
		if fault.CodeOf(err) != api.CodeInternal || !strings.Contains(err.Error(), "read message m") {
			t.Errorf("%v", err)
		}
	}
	for m, err := range transcript.All(t.Context(), s, "acme", "c") {
		if err == nil {
			t.Errorf("%+v", m)
		}
	}
}

func TestClosedDatabase(t *testing.T) {
	db := open(t, store.Options{DataDir: t.TempDir()})
	s := New(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.List(t.Context(), "acme", "c", transcript.Page{})
	for _, err := range []error{err, s.Check(t.Context())} {
		if fault.CodeOf(err) != api.CodeStoreUnavailable {
			t.Errorf("%v", err)
		}
	}
	if s.String() == "" {
		t.Error("it has no name")
	}
}
