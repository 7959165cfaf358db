package project_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// world is a server without HTTP: projects on a real engine and database, with a driver that makes files.
type world struct {
	project.Projects // of the tenant acme
	*project.Service
	t      *testing.T
	engine *engine.Engine
	db     *store.DB
	raw    *sql.DB // the same database, past the store
	fake   *fake.Driver
}

func onBoth(t *testing.T, test func(w *world), change ...func(*engine.Options)) {
	t.Run("sqlite", func(t *testing.T) {
		test(newWorld(t, store.Options{DataDir: t.TempDir()}, change...))
	})
	t.Run("postgres", func(t *testing.T) {
		test(newWorld(t, store.Options{DatabaseURL: storetest.Postgres(t)}, change...))
	})
}

func onSQLite(t *testing.T, test func(w *world)) {
	test(newWorld(t, store.Options{DataDir: t.TempDir()}))
}

// onPostgres runs the test where small tables are read along their indexes, too.
func onPostgres(t *testing.T, test func(w *world)) {
	url := storetest.Postgres(t)
	raw, err := sql.Open("pgx", url)
	if err == nil {
		_, err = raw.ExecContext(t.Context(), `do $$ begin execute format('alter database %I set enable_seqscan = off', current_database()); end $$`)
	}
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	test(newWorld(t, store.Options{DatabaseURL: url}))
}

func newWorld(t *testing.T, at store.Options, change ...func(*engine.Options)) *world {
	t.Helper()
	db, err := store.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Unlock(t, db)
	name, source := "pgx", at.DatabaseURL
	if source == "" {
		name, source = "sqlite", filepath.Join(at.DataDir, "berth.db")+"?_pragma=busy_timeout(30000)"
	}
	raw, err := sql.Open(name, source)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fake.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(raw.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	o := engine.Options{
		Store: engine.OnDB(db), Drivers: map[string]driver.Driver{"fake": f},
		Defaults: sandbox.Spec{Template: "default", Driver: "fake", Profile: "standard"},
	}
	for _, c := range change {
		c(&o)
	}
	w := &world{t: t, engine: engine.New(o), db: db, raw: raw, fake: f}
	w.Service = project.New(w.engine, db)
	w.Projects = w.Of(w.db.In("acme"), "tester", "")
	return w
}

// of are the projects of another tenant.
func (w *world) of(tenant string) project.Projects {
	return w.Of(w.db.In(store.TenantID(tenant)), "tester", "")
}

func (w *world) ensure(id string) sandbox.Sandbox {
	w.t.Helper()
	s, _, err := w.Projects.Ensure(w.t.Context(), id, sandbox.Spec{}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) get(id string) sandbox.Sandbox {
	w.t.Helper()
	s, err := w.Projects.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// exec changes the database directly. %s in the text is so long ago.
func (w *world) exec(text string, ago time.Duration, args ...any) {
	w.t.Helper()
	then := fmt.Sprint(time.Now().Add(-ago).UnixMicro())
	if w.db.Engine() == "postgres" {
		then = fmt.Sprintf("now() - interval '%d microseconds'", ago.Microseconds())
	}
	if _, err := w.raw.ExecContext(w.t.Context(), fmt.Sprintf(text, then), args...); err != nil {
		w.t.Fatal(err)
	}
}

// unused makes it long ago that the project was used.
func (w *world) unused(tenant, id string, ago time.Duration) {
	w.t.Helper()
	w.exec(`update sandboxes set active_at = %s where tenant = $1 and owner_id = $2 and deleted_at is null`, ago, tenant, id)
}

// fails checks the code of an error.
func fails(t *testing.T, err error, code api.Code) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("%v, want an error of code %s", err, code)
	}
}

// safe is a Restorer that remembers what it saved.
type safe struct {
	mu    sync.Mutex
	saved []string
	err   error
}

func (s *safe) Restore(_ context.Context, sb sandbox.Sandbox, _ driver.ID) (sandbox.SyncMark, error) {
	return sandbox.SyncMark{Version: sb.Synced.Version, Incarnation: sb.Incarnation}, nil
}

func (s *safe) Save(_ context.Context, sb sandbox.Sandbox) (sandbox.SyncMark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return sandbox.SyncMark{}, s.err
	}
	s.saved = append(s.saved, sb.Owner.ID)
	return sandbox.SyncMark{Version: "v1", Incarnation: sb.Incarnation}, nil
}

func (s *safe) has() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}
