package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// A database that accepts everything and answers nothing does not hold up the end of a server: the drain is one
// bound over all of it, requests, background work and connections.
func TestSilentDatabaseDoesNotHoldUpTheEnd(t *testing.T) {
	testkit.Proves(t, "X4")
	t.Parallel()
	proxy := fleet.NewProxy(t, storetest.Postgres(t))
	p := start(t, append(fresh(t), "DATABASE_URL="+proxy.URL, "BERTH_DRAIN_TIMEOUT=3s"))
	c := p.client(t, client.WithAttempts(1))
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	if err := proxy.Swallow(); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		go func() { _, _, _ = c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: fmt.Sprint("box-", i)}) }()
	}
	ended := make(chan error, 1)
	begin := time.Now()
	go func() { ended <- p.end(t) }()
	select {
	case <-ended:
		t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
	case <-time.After(time.Minute): // 3 s, and what a busy machine adds
		t.Error("the server did not end")
	}
}

// A server that meets a newer schema is not ready, finishes what it has and ends with words. No request is
// answered with an internal error, also where the schema no longer fits.
func TestNewerSchemaDrainsTheServer(t *testing.T) {
	testkit.Proves(t, "X3")
	t.Parallel()
	url := storetest.Postgres(t)
	p := start(t, append(fresh(t), "DATABASE_URL="+url))
	c := p.client(t, client.WithAttempts(1))
	if _, _, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`insert into goose_db_version (version_id, is_applied) values (9000, true)`,
		`alter table sandboxes rename column profile to profile_of_the_future`,
	} {
		if _, err := tx.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	notReady := false
	for done := false; !done; {
		select {
		case err := <-ended:
			if err == nil || p.cmd.ProcessState.ExitCode() != 125 {
				t.Errorf("exit: %v", err)
			}
			done = true
			continue
		case <-time.After(50 * time.Millisecond):
		}
		_, err := c.Sandboxes.Get(t.Context(), "box")
		var pr *api.Problem
		switch {
		case !errors.As(err, &pr), pr.Code == api.CodeShuttingDown:
		case notReady && pr.Code == api.CodeServerUnreachable: // it has drained and no longer listens
		default:
			t.Errorf("a request on the newer schema: %v", err)
		}
		if ready, err := c.Ready(t.Context()); err == nil {
			notReady = notReady || ready.Status == "draining" && strings.Contains(fmt.Sprint(ready.Checks), "schema version 9000")
		}
	}
	if !notReady {
		t.Error("readiness never named the newer schema")
	}
	for _, want := range []string{"schema version 9000", "newer Berth", "hint:"} {
		if !strings.Contains(p.logs.String(), want) {
			t.Errorf("%q is not in:\n%s", want, lastLines(p.logs.String(), 5))
		}
	}
}
