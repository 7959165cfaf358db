package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// The errors are SQLite's own: what it says when a file is busy, full or read-only.
func TestSQLiteErrorsOfTheMachineAreUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	open := func(query string) *sql.DB {
		db, err := sql.Open("sqlite", "file:"+path+"?"+query)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	first := open("")
	if _, err := first.Exec(`create table x (a text unique)`); err != nil {
		t.Fatal(err)
	}
	db := &DB{dialect: sqliteDialect}
	fails := func(what string, code api.Code, on *sql.DB, text string) {
		t.Helper()
		_, err := on.Exec(text)
		if err == nil {
			t.Fatalf("%s: no error", what)
		}
		if got := db.codeOf(err); got != code {
			t.Errorf("%s: %v has code %s, want %s", what, err, got, code)
		}
	}
	fails("read-only", api.CodeStoreUnavailable, open("_query_only=1"), `insert into x values ('a')`)
	fails("full", api.CodeServerDiskFull, open("_pragma=max_page_count(1)"), `create table y as select hex(randomblob(100000)) as b`)
	fails("nonsense", api.CodeInternal, first, `insert into nowhere values (1)`)
	if _, err := first.Exec(`begin immediate`); err != nil {
		t.Fatal(err)
	}
	fails("busy", api.CodeStoreUnavailable, open("_busy_timeout=0"), `insert into x values ('a')`)
	fails("not prepared", api.CodeInternal, first, `select from`)
}

func TestPostgreSQLErrorsHaveTheirCodes(t *testing.T) {
	db := &DB{dialect: postgresDialect}
	state := func(code string) error { return fmt.Errorf("run: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err  error
		want api.Code
	}{
		{state("08006"), api.CodeStoreUnavailable},
		{state("53300"), api.CodeStoreUnavailable},
		{state("57P01"), api.CodeStoreUnavailable},
		{state("58030"), api.CodeStoreUnavailable},
		{state("25006"), api.CodeStoreUnavailable},
		{state("40001"), api.CodeStoreUnavailable},
		{state("57014"), api.CodeStoreUnavailable},
		{state("23505"), api.CodeConflict},
		{state("23503"), api.CodeNotFound},
		{state("22021"), api.CodeInvalidRequest},
		{state("54000"), api.CodeInvalidRequest},
		{state("42601"), api.CodeInternal},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), api.CodeStoreUnavailable},
		{sql.ErrConnDone, api.CodeStoreUnavailable},
		{context.DeadlineExceeded, api.CodeStoreUnavailable},
		{context.Canceled, api.CodeTimeout},
		{sql.ErrNoRows, api.CodeNotFound},
		{errors.New("anything else"), api.CodeInternal},
	} {
		if got := db.codeOf(c.err); got != c.want {
			t.Errorf("%v has code %s, want %s", c.err, got, c.want)
		}
	}
}

func TestConnectWordsKnowWhatPeopleMeet(t *testing.T) {
	for code, want := range map[string]string{
		"28P01": "user or password refused", "28000": "user or password refused",
		"3D000": "there is no such database", "53300": "it has no connection left",
		"57P03": "the database system is starting up", "42501": "the database system is starting up",
	} {
		err := fmt.Errorf("connect: %w", &pgconn.PgError{Code: code, Message: "the database system is starting up"})
		if _, what, hint := explainConnect(err); what != want || hint == "" {
			t.Errorf("%s: %q, %q", code, what, hint)
		}
	}
	unknown := fmt.Errorf("connect: %w", &net.DNSError{Name: "db.example", IsNotFound: true})
	if _, what, hint := explainConnect(unknown); what != "the host name is unknown" || !strings.Contains(hint, "DNS") {
		t.Errorf("unknown host: %q, %q", what, hint)
	}
	joined := fmt.Errorf("connect: %w", errors.Join(errors.New("first"), errors.New("last")))
	if _, what, _ := explainConnect(joined); what != "last" {
		t.Errorf("unknown failure: %q", what)
	}
}

func TestRacersForOneOwnerQueueAtItsGate(t *testing.T) {
	testkit.Proves(t, "O2")
	opts := Options{DatabaseURL: pgtest.New(t).URL}
	db, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := db.In("acme")
	in := SandboxRequest{Kind: sandbox.OwnerProject, Owner: "p1", Want: sandbox.WantRunning}
	racer, err := db.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer racer.Close()
	if _, err := racer.ExecContext(t.Context(), `select pg_advisory_lock($1)`, s.lockKey(in)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := s.RequestSandbox(t.Context(), in)
		done <- err
	}()
	testkit.Eventually(t, 30*time.Second, func() error {
		_, err := first(t.Context(), db.read, scanOne[int64], `select objid from pg_locks where locktype = 'advisory' and not granted`)
		return err
	})
	if _, err := s.ByOwner(t.Context(), in.Kind, in.Owner); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("the row was made before the gate opened: %v", err)
	}
	if _, err := racer.ExecContext(t.Context(), `select pg_advisory_unlock($1)`, s.lockKey(in)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	held, err := first(t.Context(), db.read, scanOne[int64], `select count(*) from pg_locks where locktype = 'advisory'`)
	if err != nil || held != 0 {
		t.Errorf("%d advisory locks are left (%v)", held, err)
	}
}

func TestScannersRefuseWhatTheyDoNotKnow(t *testing.T) {
	if err := (instant{}).Scan("yesterday"); err == nil {
		t.Error("text is no time")
	}
	if err := (document{}).Scan(1.5); err == nil {
		t.Error("a number is no document")
	}
}

// A note of the last use does not wait for the disk, and what follows on the same connection does.
func TestNoteDoesNotWaitForTheDisk(t *testing.T) {
	const synced = `select synchronous from pragma_synchronous`
	db, err := Open(t.Context(), Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.write.exec(t.Context(), `create table noted (synchronous integer)`); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time with a prepared statement
		if err := db.execRelaxed(t.Context(), `insert into noted `+synced); err != nil {
			t.Fatal(err)
		}
	}
	got, err := all(t.Context(), db.write, scanOne[int], `select synchronous from noted union all `+synced)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 1, 2}; !slices.Equal(got, want) { // NORMAL twice, then FULL
		t.Errorf("synchronous was %v, want %v", got, want)
	}
}
