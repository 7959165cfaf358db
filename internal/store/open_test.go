package store_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestDataDirIsMadePrivate(t *testing.T) {
	testkit.Proves(t, "X1")
	for _, name := range []string{"plain", "a b/c", "50% of ü?#&=x"} {
		dir := filepath.Join(t.TempDir(), name)
		db, err := store.Open(t.Context(), store.Options{DataDir: dir})
		noError(t, err)
		if db.Engine() != "sqlite" || db.LeaseTTL() != store.DefaultLeaseTTL {
			t.Errorf("opened %s with leases of %v", db.Engine(), db.LeaseTTL())
		}
		noError(t, db.Ping(t.Context()))
		intend(t, db.In(acme), intent("c1"))
		files, err := os.ReadDir(dir)
		noError(t, err)
		if len(files) < 2 {
			t.Errorf("%q holds %v", name, files)
		}
		for _, file := range files {
			if info, err := file.Info(); err != nil || info.Mode() != fs.FileMode(0o600) {
				t.Errorf("%s has mode %v (%v)", file.Name(), info.Mode(), err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q has mode %v (%v)", name, info.Mode(), err)
		}
		noError(t, db.Close())
		again, err := store.Open(t.Context(), store.Options{DataDir: dir})
		noError(t, err)
		_, err = again.In(acme).ByOwner(t.Context(), sandbox.OwnerConversation, "c1")
		noError(t, err)
		noError(t, again.Close())
	}
}

func TestSecondProcessIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	other, in := startHolder(t, dir)
	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	wantCode(t, err, api.CodeDataDirLocked)
	if pid := strconv.Itoa(other.Process.Pid); !strings.Contains(err.Error(), "process "+pid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q does not name process %s and %s", err, pid, dir)
	}
	_, err = store.Migrate(t.Context(), store.Options{DataDir: dir})
	wantCode(t, err, api.CodeDataDirLocked)
	noError(t, in.Close())
	noError(t, other.Wait())
	db, err := store.Open(t.Context(), store.Options{DataDir: dir})
	noError(t, err)
	_, err = store.Open(t.Context(), store.Options{DataDir: dir}) // this process counts, too
	wantCode(t, err, api.CodeDataDirLocked)
	noError(t, db.Close())
}

func TestKilledProcessFreesTheDataDir(t *testing.T) {
	dir := t.TempDir()
	other, _ := startHolder(t, dir)
	noError(t, other.Process.Kill())
	_ = other.Wait()
	db, err := store.Open(t.Context(), store.Options{DataDir: dir})
	noError(t, err)
	noError(t, db.Close())
}

// openAsNobody opens the store without root's rights over files, on a thread that ends with it.
func openAsNobody(dir string) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread keeps the changed id
		_, _, _ = unix.Syscall(unix.SYS_SETFSUID, 65534, 0, 0)
		_, err := store.Open(context.Background(), store.Options{DataDir: dir})
		result <- err
	}()
	return <-result
}

func TestDataDirThatCannotBeWritten(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{filepath.Dir(base), base} {
		noError(t, os.Chmod(dir, 0o755)) // nobody may pass, but not write
	}
	file := filepath.Join(base, "file")
	noError(t, os.WriteFile(file, nil, 0o644))
	half := filepath.Join(base, "half") // the lock can be taken, the database not be made
	noError(t, os.Mkdir(half, 0o755))
	noError(t, os.WriteFile(filepath.Join(half, "berth.lock"), nil, 0o600))
	noError(t, os.Chmod(filepath.Join(half, "berth.lock"), 0o666))
	noError(t, os.Mkdir(filepath.Join(base, "taken"), 0o755))
	noError(t, os.Mkdir(filepath.Join(base, "taken", "berth.lock"), 0o755))
	for name, dir := range map[string]string{
		"read-only": base, "its parent is read-only": filepath.Join(base, "data"),
		"a file": file, "below a file": filepath.Join(file, "data"), "only the lock can be written": half,
		"no file where the lock goes": filepath.Join(base, "taken"),
	} {
		err := openAsNobody(dir)
		wantCode(t, err, api.CodeInvalidConfig)
		var e *fault.Error
		if errors.As(err, &e); !strings.Contains(err.Error(), dir) || !strings.Contains(e.Hint, "--data-dir") {
			t.Errorf("%s: error %q with hint %q", name, err, e.Hint)
		}
	}
	_, err := store.Open(t.Context(), store.Options{})
	wantCode(t, err, api.CodeInvalidConfig)
}

func TestDatabaseFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(dir, "berth.db"), []byte(strings.Repeat("no database at all\n", 100)), 0o600))
	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	wantCode(t, err, api.CodeInvalidConfig)
	var e *fault.Error
	if errors.As(err, &e); !strings.Contains(err.Error(), "berth.db is damaged") || !strings.Contains(e.Hint, "backup") || strings.Contains(e.Hint, "write there") {
		t.Errorf("error %q with hint %q", err, e.Hint)
	}
	_, err = store.Open(t.Context(), store.Options{DataDir: dir}) // the failure freed the lock
	wantCode(t, err, api.CodeInvalidConfig)
}

// rawDB opens the harness's database beside the store.
func (h harness) rawDB(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(h.opts.DataDir, "berth.db")+"?_pragma=busy_timeout(60000)")
	if h.engine == "postgres" {
		db, err = sql.Open("pgx", h.opts.DatabaseURL)
	}
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestNewerSchemaIsRefusedWithWords(t *testing.T) {
	testkit.Proves(t, "X3")
	onBoth(t, func(t *testing.T, h harness) {
		_, err := store.Migrate(t.Context(), h.opts)
		noError(t, err)
		known, err := store.Status(t.Context(), h.opts)
		noError(t, err)
		_, err = h.rawDB(t).Exec(`insert into goose_db_version (version_id, is_applied) values (9000, true)`)
		noError(t, err)
		for name, open := range map[string]func() error{
			"open":    func() error { _, err := store.Open(t.Context(), h.opts); return err },
			"migrate": func() error { _, err := store.Migrate(t.Context(), h.opts); return err },
			"open as it is": func() error {
				opts := h.opts
				opts.SkipMigrate = true
				_, err := store.Open(t.Context(), opts)
				return err
			},
		} {
			err := open()
			wantCode(t, err, api.CodeSchemaTooNew)
			if !strings.Contains(err.Error(), "9000") || !strings.Contains(err.Error(), strconv.FormatInt(known.Target, 10)) {
				t.Errorf("%s: %q does not name both versions", name, err)
			}
		}
	})
}

func TestMigrateSaysWhatItDid(t *testing.T) {
	testkit.Proves(t, "X3")
	for engine, opts := range map[string]store.Options{
		"sqlite":   {DataDir: t.TempDir()},
		"postgres": {DatabaseURL: pgtest.New(t).URL},
	} {
		t.Run(engine, func(t *testing.T) {
			skip := opts
			skip.SkipMigrate = true
			var before store.Schema
			for range 2 { // looking changes nothing
				var err error
				before, err = store.Status(t.Context(), opts)
				noError(t, err)
				if before.Current != 0 || before.Target < 1 || before.UpToDate() {
					t.Errorf("new database: %+v", before)
				}
			}
			_, err := store.Open(t.Context(), skip)
			wantCode(t, err, api.CodeInvalidConfig)
			done, err := store.Migrate(t.Context(), opts)
			noError(t, err)
			if !done.UpToDate() || len(done.Applied) != len(before.Missing) || done.Applied[0] != "00001_foundation.sql" {
				t.Errorf("migrated: %+v", done)
			}
			again, err := store.Migrate(t.Context(), opts)
			noError(t, err)
			if !again.UpToDate() || len(again.Applied) > 0 {
				t.Errorf("migrated again: %+v", again)
			}
			db, err := store.Open(t.Context(), skip)
			noError(t, err)
			noError(t, db.Close())
		})
	}
}

func TestReplicasStartingTogetherMigrateOnce(t *testing.T) {
	testkit.Proves(t, "X3")
	url := pgtest.New(t).URL
	race(4, func(i int) {
		db, err := store.Open(t.Context(), store.Options{DatabaseURL: url})
		if err != nil {
			t.Error(err)
			return
		}
		if _, _, err := db.In(acme).RequestSandbox(t.Context(), intent("c1")); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	schema, err := store.Status(t.Context(), store.Options{DatabaseURL: url})
	noError(t, err)
	if !schema.UpToDate() {
		t.Errorf("schema is %+v", schema)
	}
}

func TestMigrationThatFailsSaysWhere(t *testing.T) {
	h := harness{"postgres", store.Options{DatabaseURL: pgtest.New(t).URL}}
	_, err := h.rawDB(t).Exec(`create table sandboxes (mine int)`)
	noError(t, err)
	_, err = store.Open(t.Context(), h.opts)
	if err == nil || !strings.Contains(err.Error(), "from version 0 to ") || !strings.Contains(err.Error(), "migration 1: ") || !strings.Contains(err.Error(), "sandboxes") {
		t.Errorf("error is %v", err)
	}
	var e *fault.Error
	if errors.As(err, &e); !strings.Contains(e.Hint, "schema version 0") || !strings.Contains(e.Hint, "berth migrate") || !strings.Contains(e.Hint, "backup") {
		t.Errorf("hint is %q", e.Hint)
	}
	schema, err := store.Status(t.Context(), h.opts)
	noError(t, err)
	if schema.Current != 0 {
		t.Errorf("schema is %+v after a failed migration", schema)
	}
}

func TestRoleThatMayNotMakeTablesIsToldWhatToGrant(t *testing.T) {
	real, err := url.Parse(pgtest.New(t).URL)
	noError(t, err)
	admin := harness{"postgres", store.Options{DatabaseURL: real.String()}}.rawDB(t)
	for _, statement := range []string{
		`create role "new-comer" login password 'sesame'`, `revoke create on schema public from public`,
	} {
		_, err := admin.Exec(statement)
		noError(t, err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec(`drop owned by "new-comer"`)
		_, _ = admin.Exec(`drop role "new-comer"`)
	})
	real.User = url.UserPassword("new-comer", "sesame")
	opts := store.Options{DatabaseURL: real.String()}
	_, status := store.Status(t.Context(), opts)
	_, open := store.Open(t.Context(), opts)
	for _, err := range []error{status, open} {
		wantCode(t, err, api.CodeInvalidConfig)
		var e *fault.Error
		if errors.As(err, &e); !strings.Contains(err.Error(), `role "new-comer" may not create tables in schema public of database `) || !strings.Contains(e.Hint, `CREATE ON SCHEMA public TO "new-comer"`) {
			t.Errorf("error %q with hint %q", err, e.Hint)
		}
	}
	_, err = admin.Exec(`grant usage, create on schema public to "new-comer"`)
	noError(t, err)
	db, err := store.Open(t.Context(), opts)
	noError(t, err)
	noError(t, db.Close())
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	onBoth(t, func(t *testing.T, h harness) {
		db, err := store.Open(t.Context(), h.opts)
		noError(t, err)
		noError(t, db.Close())
		wantCode(t, db.Ping(t.Context()), api.CodeStoreUnavailable)
		_, err = db.In(acme).ByID(t.Context(), store.NewID())
		wantCode(t, err, api.CodeStoreUnavailable)
	})
}

func TestCallsEndWithTheirContext(t *testing.T) {
	withDB(t, func(t *testing.T, db *store.DB) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := db.In(acme).RequestSandbox(cancelled, intent("c1"))
		wantCode(t, err, api.CodeTimeout)
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err = db.In(acme).ByID(late, store.NewID())
		wantCode(t, err, api.CodeStoreUnavailable)
	})
}
