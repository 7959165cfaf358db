package app_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to look at a server's file from outside

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

func TestServerRefusesADamagedDatabase(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	env := fresh(t)
	p := start(t, env)
	for i := range 20 {
		if _, _, err := p.client(t).Sandboxes.Create(t.Context(), api.CreateSandbox{Name: fmt.Sprint("box-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := 4; page < 16; page++ {
		copy(file[page*4096:], strings.Repeat("\xa5lost", 800))
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	said := refused(t, env)
	for _, want := range []string{path + " is damaged", "hint:", "backup", ".recover", "berth doctor"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in:\n%s", want, said)
		}
	}
}

// A server whose scans fail does none of its background work: it says so, and stops saying so.
func TestFailingScansAreNotReady(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	onBoth(t, func(t *testing.T, env []string) {
		p := start(t, env)
		c := p.client(t, client.WithAttempts(1))
		db, err := sql.Open("sqlite", filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db")+"?_pragma=busy_timeout(60000)")
		if url := value(env, "DATABASE_URL"); url != "" {
			db, err = sql.Open("pgx", url)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		until := func(status string, detail string) {
			t.Helper()
			testkit.Eventually(t, time.Minute, func() error {
				ready, err := c.Ready(t.Context())
				if err != nil || ready.Status != status || !strings.Contains(fmt.Sprint(ready.Checks), detail) {
					return fmt.Errorf("readiness is %+v, %v; want %s", ready, err, status)
				}
				return nil
			})
		}
		until("ready", "")
		if _, err := db.Exec(`alter table leases rename to leases_away`); err != nil {
			t.Fatal(err)
		}
		until("not_ready", "claim due sandboxes has failed")
		if _, err := db.Exec(`alter table leases_away rename to leases`); err != nil {
			t.Fatal(err)
		}
		until("ready", "")
	})
}
