package doctor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

func TestPostgresIsJudgedByVersionAndClock(t *testing.T) {
	for _, c := range []struct {
		pg     postgres
		status string
		words  string
	}{
		{postgres{110022, "11.22", 0}, Failed, "PostgreSQL 11.22 is older than 12"},
		{postgres{120000, "12.0", time.Second}, OK, "release 12.0, its clock differs from ours by 1s"},
		{postgres{150018, "15.18", -time.Minute}, Warning, "differs from this machine's by -1m0s"},
		{postgres{150018, "15.18", 3 * time.Second}, Warning, "by 3s"},
	} {
		f := c.pg.judge()
		if f.status != c.status || !strings.Contains(f.detail, c.words) || (f.fix == "") != (f.status == OK) {
			t.Errorf("%+v: %+v", c.pg, f)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestPostgresFromEmptyToTooNew(t *testing.T) {
	url := pgtest.New(t).URL
	s := subject(t, "database-url", url)
	expect(t, s, "database", OK, "PostgreSQL has schema version 0; the server brings it to ")

	db, err := store.Open(t.Context(), store.Options{DatabaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	expect(t, s, "database", OK, "its clock differs from ours by ")
	expect(t, s, "lock", OK, "not needed")

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `insert into goose_db_version (version_id, is_applied) values (9999, true)`); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "database", Failed, "has schema version 9999, this Berth knows up to")
}

func TestPostgresThatDoesNotAnswer(t *testing.T) {
	s := subject(t, "database-url", "postgres://berth:hunter2@127.0.0.1:1/berth")
	expect(t, s, "database", Failed, "PostgreSQL")
	expect(t, s, "lock", OK, "not needed with PostgreSQL")
	for _, c := range Run(t.Context(), s) {
		if strings.Contains(c.Detail+c.Fix, "hunter2") {
			t.Errorf("the password is shown: %+v", c)
		}
	}
}
