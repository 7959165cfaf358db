package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// One of three servers is killed while it makes sandboxes. After its leases have expired, the other servers provide
// every owner with a sandbox, also the owners whose sandboxes the killed server was making.
func TestOwnersOfAKilledServerAreServedByTheOthers(t *testing.T) {
	testkit.Proves(t, "O2", "X2")
	t.Parallel()
	const ttl = 3 * time.Second
	f := fleet.New(t, fleet.Options{Replicas: 3, LeaseTTL: ttl})
	if err := fake.SetFaults(f.Dir, []fake.Fault{{Op: fake.Create, Slow: 500 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	const owners = 60
	served := make(chan time.Time, owners)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for n := range owners {
		wg.Go(func() {
			c := f.Any(client.WithAttempts(always))
			s, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: fmt.Sprintf("owner-%d", n)})
			if err != nil || s.State != "running" {
				t.Errorf("owner-%d: %+v, %v", n, s, err)
			}
			served <- time.Now()
		})
	}
	victim := f.PID(1)
	testkit.Eventually(t, time.Minute, func() error {
		if n := len(unanswered(f, victim)); n < 5 {
			return fmt.Errorf("the server makes %d sandboxes", n)
		}
		return nil
	})
	f.Kill(1)
	killed := time.Now()
	cut := unanswered(f, victim)
	wg.Wait()
	close(served)
	var waits []time.Duration
	for at := range served {
		waits = append(waits, at.Sub(killed))
	}
	slices.Sort(waits)
	t.Logf("leases of %v; the last owner was served %v after the kill, half of them after %v; %d sandboxes were in the dead server's hands",
		ttl, waits[owners-1], waits[owners/2], len(cut))
	if len(cut) == 0 || waits[owners-1] > ttl+patience {
		t.Errorf("%d sandboxes were in the dead server's hands, and the last owner waited for %v", len(cut), waits[owners-1])
	}
	for _, id := range cut {
		if s, err := f.Any().Sandboxes.Get(ctx, id); err != nil || s.Incarnation < 2 {
			t.Errorf("a sandbox that the dead server was making: %+v, %v", s, err)
		}
	}
	if err := f.Unsettled(ctx); err != nil {
		t.Error(err)
	}
	if found := fleet.Doubles(f.Calls()); len(found) > 0 {
		t.Error(found)
	}
}

// patience is additional time for a busy machine.
const patience = 30 * time.Second

// unanswered returns the sandboxes whose create calls have not returned to the server with this process id. They never
// return after the server is killed.
func unanswered(f *fleet.Fleet, pid int) (ids []string) {
	for _, c := range f.Calls() {
		if c.Op == fake.Create && c.PID == pid && c.Outcome == "" {
			ids = append(ids, c.Key.Sandbox)
		}
	}
	return ids
}

// All servers are restarted, one after the other, under the load of clients that send each request at most twice.
// No request fails.
func TestRollingRestartFailsNobodyWhoAsksTwice(t *testing.T) {
	testkit.Proves(t, "X2", "X4")
	t.Parallel()
	f := fleet.New(t, fleet.Options{Replicas: 3})
	if err := fake.SetFaults(f.Dir, []fake.Fault{{Op: fake.Create, Slow: 50 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	l := startLoad(t, f, 16, 2)
	for range testkit.Size(t, "rolling.restarts") {
		if err := f.Roll(); err != nil {
			t.Error(err)
		}
	}
	l.finish()
}
