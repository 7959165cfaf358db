package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// always is a number of attempts for clients that never give up.
const always = 10_000

// The network to the database is slow and breaks again and again while sandboxes are made. Clients that retry get
// their sandboxes. No sandbox is made twice or lost.
func TestBadNetworkToTheDatabaseLosesNothing(t *testing.T) {
	testkit.Proves(t, "O2", "X2")
	t.Parallel()
	f := fleet.New(t, fleet.Options{Replicas: 3, Faulty: true, LeaseTTL: 2 * time.Second})
	l := startLoad(t, f, 8, always)
	for range testkit.Size(t, "network.rounds") {
		if err := f.Database.Slow(20*time.Millisecond, 15*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if err := f.Database.Reset(0.3, 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		<-time.After(500 * time.Millisecond)
		if err := f.Database.Heal(); err != nil {
			t.Fatal(err)
		}
		<-time.After(500 * time.Millisecond)
	}
	l.finish()
}

// The database is unreachable for longer than a lease lasts while sandboxes are made. Every request gets an error that
// allows a retry, and readiness names the database. After the outage everything works as before.
func TestDatabaseOutageIsToldAndSurvived(t *testing.T) {
	testkit.Proves(t, "E1", "X2", "X4")
	for name, c := range map[string]struct {
		away  func(*fleet.Proxy) error
		codes []api.Code // allowed error codes
	}{
		"refused": {func(p *fleet.Proxy) error { p.Cut(); return nil }, []api.Code{api.CodeStoreUnavailable}},
		"silent":  {(*fleet.Proxy).Swallow, []api.Code{api.CodeStoreUnavailable, api.CodeTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.New(t, fleet.Options{Replicas: 2, Faulty: true, LeaseTTL: time.Second, Env: []string{"BERTH_REQUEST_TIMEOUT=3s"}})
			if err := fake.SetFaults(f.Dir, []fake.Fault{{Op: fake.Create, Slow: 300 * time.Millisecond}}); err != nil {
				t.Fatal(err)
			}
			l := startLoad(t, f, 8, always)
			testkit.Eventually(t, time.Minute, func() error { return underWay(f, 4) })
			over := time.After(time.Duration(testkit.Size(t, "outage.seconds")) * time.Second)
			if err := c.away(f.Database); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				testkit.Eventually(t, time.Minute, func() error { return says(t.Context(), f, i, "not_ready") })
				if err := refuses(t.Context(), f, i, c.codes); err != nil {
					t.Error(err)
				}
			}
			<-over
			if err := f.Database.Heal(); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				testkit.Eventually(t, time.Minute, func() error { return says(t.Context(), f, i, "ready") })
			}
			before := l.calls.Load()
			testkit.Eventually(t, time.Minute, func() error {
				if n := l.calls.Load() - before; n < 20 {
					return fmt.Errorf("%d calls were answered since the database came back", n)
				}
				return nil
			})
			l.finish()
		})
	}
}

// underWay returns nil if servers are waiting for at least the given number of create calls.
func underWay(f *fleet.Fleet, want int) error {
	n := 0
	for _, c := range f.Calls() {
		if c.Op == fake.Create && c.Outcome == "" {
			n++
		}
	}
	if n < want {
		return fmt.Errorf("%d creates are under way", n)
	}
	return nil
}

// says returns nil if the server's readiness has the wanted status. If that is not_ready, the failed check must be the
// database.
func says(ctx context.Context, f *fleet.Fleet, i int, want string) error {
	ready, err := f.Client(i).Ready(ctx)
	if err != nil || ready.Status != want {
		return fmt.Errorf("readiness of server %d: %+v, %w", i, ready, err)
	}
	blamed := slices.ContainsFunc(ready.Checks, func(c api.Check) bool { return c.Name == "database" && c.Status == "failed" })
	if blamed != (want == "not_ready") {
		return fmt.Errorf("readiness of server %d blames the wrong one: %+v", i, ready)
	}
	return nil
}

// refuses returns nil if the server answers a create with one of the codes and with a time for a retry.
func refuses(ctx context.Context, f *fleet.Fleet, i int, codes []api.Code) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.Address(i)+"/api/v1/sandboxes", strings.NewReader(`{"name": "owner-0-0"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+fleet.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var p api.Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		return err
	}
	if !slices.Contains(codes, p.Code) || res.StatusCode != p.Code.Info().Status || !p.Retryable || res.Header.Get("Retry-After") == "" {
		return fmt.Errorf("server %d answered %s %+v, Retry-After %q", i, res.Status, p, res.Header.Get("Retry-After"))
	}
	return nil
}
