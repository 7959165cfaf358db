package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/exposetest"
)

// exposing opens a server whose provider serves ports at its own URLs.
func exposing(t *testing.T, at place, p *exposetest.Provider) *server {
	return at.open(t, func(o *engine.Options) {
		f, err := fake.New(at.FakeDir)
		if err != nil {
			t.Fatal(err)
		}
		o.Drivers["fake"] = driver.WithRetry(struct {
			*fake.Driver
			*exposetest.Exposer
		}{f, p.For(f)}, driver.Backoff{First: time.Millisecond, Max: time.Millisecond, Tries: 2})
	})
}

// The provider's URL is kept and shared. It is replaced when it does not work, and a provider that is down holds up nothing.
func TestURLOfProviderIsACache(t *testing.T) {
	testkit.Proves(t, "T3")
	p := exposetest.New(t)
	s := exposing(t, onSQLite(t), p)
	h := s.Handle("default", s.ensure(t, project("p")).ID, "test")
	var all sync.WaitGroup
	urls := make([]driver.Exposure, 10)
	for i := range urls {
		all.Go(func() {
			var err error
			if urls[i], err = h.Exposed(t.Context(), 8080); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, u := range urls {
		if u != urls[0] || u.URL == "" {
			t.Errorf("%+v is not %+v", u, urls[0])
		}
	}
	if n := p.Asked(); n > 2 { // a caller may come between an answer and its record
		t.Errorf("the provider was asked %d times", n)
	}
	if at, err := h.RenewExposed(t.Context(), 8080, driver.Exposure{URL: "http://an.earlier.one"}); err != nil || at != urls[0] {
		t.Errorf("an earlier URL is replaced by %+v, %v", at, err)
	}
	testkit.Eventually(t, time.Minute, func() error { // a new URL is not replaced at once: the program may have refused
		at, err := h.RenewExposed(t.Context(), 8080, urls[0])
		if err == nil && at == urls[0] {
			err = errors.New("the URL is not renewed")
		}
		return err
	})
	last, err := h.Exposed(t.Context(), 8080)
	if err != nil || last == urls[0] {
		t.Errorf("%+v, %v", last, err)
	}
	for i, f := range []exposetest.Fault{exposetest.Cuts, exposetest.Lies, exposetest.Stale} {
		p.Fail(f)
		if _, err := h.Exposed(t.Context(), uint16(9000+i)); fault.CodeOf(err) != api.CodeDriverUnreachable {
			t.Errorf("a provider that %s: %v", f, err)
		}
	}
	p.Fail(exposetest.Hangs)
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Exposed(brief, 9100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a provider that hangs: %v", err)
	}
	if at, err := h.Exposed(t.Context(), 8080); err != nil || at != last {
		t.Errorf("a URL that works is not used while the provider hangs: %+v, %v", at, err)
	}
	p.Fail(exposetest.Works)
	testkit.Eventually(t, time.Minute, func() error {
		_, err := h.Exposed(t.Context(), 9000)
		return err
	})
}

// A URL is renewed before it expires, and no expired one is returned.
func TestURLOfProviderIsRenewedInTime(t *testing.T) {
	testkit.Proves(t, "T3")
	p := exposetest.New(t)
	p.Most = 3 * time.Second
	s := exposing(t, onSQLite(t), p)
	h := s.Handle("default", s.ensure(t, project("p")).ID, "test")
	first, err := h.Exposed(t.Context(), 8080)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		at, err := h.Exposed(t.Context(), 8080)
		switch {
		case err != nil:
			t.Fatal(err)
		case !time.Now().Before(at.ExpiresAt.Add(time.Second)):
			t.Errorf("the URL expired at %s", at.ExpiresAt)
		case at == first:
			return errors.New("the URL is not renewed")
		}
		return nil
	})
}

// The row of a sandbox has the URL of the agent's port until it expires.
func TestURLOfAgentIsInTheRow(t *testing.T) {
	testkit.Proves(t, "T2", "T3")
	p := exposetest.New(t)
	p.Most = 2 * time.Second
	at := onSQLite(t)
	s := exposing(t, at, p)
	db, err := sql.Open("sqlite", filepath.Join(at.DataDir, "berth.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	row := func() (url, token sql.NullString) {
		if err := db.QueryRow(`select preview_url, preview_token from sandboxes`).Scan(&url, &token); err != nil {
			t.Fatal(err)
		}
		return url, token
	}
	box := s.ensure(t, project("p"))
	s.KeepExposed(box)
	testkit.Eventually(t, time.Minute, func() error {
		if url, _ := row(); url.String == "" {
			return errors.New("the row has no URL")
		}
		return nil
	})
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := s.Sweep(t.Context(), engine.SweepOptions{}); err != nil {
			return err
		}
		if url, token := row(); url.Valid || token.Valid {
			return fmt.Errorf("the row has %q, %q", url.String, token.String)
		}
		return nil
	})
	if box.Instance == "" || p.Asked() != 1 {
		t.Errorf("the provider was asked %d times", p.Asked())
	}
}
