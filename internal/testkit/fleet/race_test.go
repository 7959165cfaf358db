package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
	"golang.org/x/sync/errgroup"
)

// Clients request the sandboxes of the same owners from all servers at once, while the driver is slow. The driver's log
// must show one create for each owner. The final state alone would look right without any lease.
func TestServersRaceOneCreatePerOwner(t *testing.T) {
	testkit.Proves(t, "O1", "O2", "O3", "X2")
	t.Parallel()
	race(t, fleet.New(t, fleet.Options{Replicas: testkit.Size(t, "i1.servers")}), testkit.Size(t, "i1.servers"))
}

// The same race happens in one server, because SQLite allows only one.
func TestOneServerRacesOneCreatePerOwner(t *testing.T) {
	testkit.Proves(t, "O1", "O3", "X1")
	t.Parallel()
	race(t, fleet.New(t, fleet.Options{SQLite: true}), 1)
}

func race(t *testing.T, f *fleet.Fleet, servers int) {
	if err := fake.SetFaults(f.Dir, []fake.Fault{{Op: fake.Create, Slow: 20 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	owners := testkit.Size(t, "i1.raced")
	told := newAnswers()
	var g errgroup.Group
	began := time.Now()
	for i := range servers {
		for range 8 {
			g.Go(func() error { return askAll(t, f.Client(i), owners, told) })
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d servers, %d owners: %v", servers, owners, time.Since(began).Round(time.Millisecond))
	told.oneEach(t, owners)
	calls := f.Calls()
	if creates := fleet.Creates(calls); len(creates) != owners {
		t.Errorf("instances of %d sandboxes were made for %d owners", len(creates), owners)
	}
	for id, n := range fleet.Creates(calls) {
		if n != 1 {
			t.Errorf("%d creates were sent to the driver for sandbox %s", n, id)
		}
	}
	if found := fleet.Doubles(calls); len(found) > 0 {
		t.Error(found)
	}
	if err := f.Unsettled(t.Context()); err != nil {
		t.Error(err)
	}
}

// askAll requests every owner's sandbox, in a random order.
func askAll(t *testing.T, c *client.Client, owners int, told *answers) error {
	for _, n := range rand.Perm(owners) {
		owner := fmt.Sprintf("owner-%d", n)
		got, made, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Name: owner})
		if err != nil {
			return fmt.Errorf("%s: %w", owner, err)
		}
		told.add(owner, got, made)
	}
	return nil
}

// answers records the answers of all clients: the sandbox ids of each owner, and the number of answers with a new sandbox.
type answers struct {
	mu   sync.Mutex
	ids  map[string]map[string]bool // by owner
	made map[string]int
}

func newAnswers() *answers {
	return &answers{ids: map[string]map[string]bool{}, made: map[string]int{}}
}

func (w *answers) add(owner string, s api.Sandbox, made bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids[owner] == nil {
		w.ids[owner] = map[string]bool{}
	}
	w.ids[owner][s.ID] = true
	if made {
		w.made[owner]++
	}
}

// oneEach checks that all answers for an owner had the same id, and that exactly one said that the sandbox is new.
func (w *answers) oneEach(t *testing.T, owners int) {
	t.Helper()
	if len(w.ids) != owners {
		t.Errorf("%d of %d owners have a sandbox", len(w.ids), owners)
	}
	for owner, ids := range w.ids {
		if len(ids) != 1 || w.made[owner] != 1 {
			t.Errorf("%s has the sandboxes %v; %d were told that theirs is new", owner, ids, w.made[owner])
		}
	}
}
