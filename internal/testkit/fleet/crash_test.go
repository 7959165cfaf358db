package fleet_test

import (
	"context"
	"errors"
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
)

// Servers are killed at random while they make and end sandboxes. Clients retry, or give up after one attempt. In both
// cases every sandbox has exactly the instance that it names in the end, and there is no other instance.
func TestKilledServersLeaveNoOrphans(t *testing.T) {
	testkit.Proves(t, "O2", "O6", "O8")
	for name, attempts := range map[string]int{"clients insist": 100, "clients give up": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.New(t, fleet.Options{Replicas: 3, LeaseTTL: 3 * time.Second})
			w := &crashRun{T: t, f: f, attempts: attempts, kills: testkit.Size(t, "i2.kills")}
			w.run()
		})
	}
}

// crashRun is a fleet whose servers are killed under load.
type crashRun struct {
	*testing.T
	f        *fleet.Fleet
	attempts int // number of attempts of each call
	kills    int

	mu       sync.Mutex
	answered int
	kept     map[string]string // ids of the sandboxes that clients have, by owner
}

func (w *crashRun) run() {
	if err := fake.SetFaults(w.f.Dir, []fake.Fault{
		{Op: fake.Create, Slow: 15 * time.Millisecond}, {Op: fake.Create, Slow: 30 * time.Millisecond, After: true},
		{Op: fake.Destroy, Slow: 10 * time.Millisecond},
	}); err != nil {
		w.Fatal(err)
	}
	w.kept = map[string]string{}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	var load sync.WaitGroup
	for i := range 16 {
		load.Go(func() { w.load(ctx, i) })
	}
	for n := range w.kills {
		i := rand.IntN(3)
		<-time.After(time.Duration(20+rand.IntN(120)) * time.Millisecond)
		if n%2 == 0 { // every second kill happens in the middle of a create
			testkit.Eventually(w, time.Minute, func() error { return w.creates(i) })
		}
		w.f.Kill(i)
		if err := w.f.Start(i); err != nil {
			w.Fatal(err)
		}
	}
	cancel()
	load.Wait()
	testkit.Eventually(w, 2*time.Minute, func() error { return w.f.Unsettled(w.Context()) })
	w.check()
}

// creates returns nil if the i-th server is waiting for a create call.
func (w *crashRun) creates(i int) error {
	if len(unanswered(w.f, w.f.PID(i))) == 0 {
		return errors.New("the server makes nothing")
	}
	return nil
}

// load makes sandboxes, one owner after the other, and deletes every third.
func (w *crashRun) load(ctx context.Context, worker int) {
	c := w.f.Any(client.WithAttempts(w.attempts))
	for n := 0; ctx.Err() == nil; n++ {
		owner := fmt.Sprintf("owner-%d-%d", worker, n)
		s, _, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Name: owner})
		if err == nil {
			w.note(owner, s.ID)
		}
		if err != nil || n%3 > 0 {
			continue
		}
		w.note(owner, "")
		_ = c.Sandboxes.Delete(ctx, s.ID)
	}
}

func (w *crashRun) note(owner, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered++
	w.kept[owner] = id
	if id == "" {
		delete(w.kept, owner)
	}
}

// check compares the sandboxes of the owners with the answers that clients got.
func (w *crashRun) check() {
	there := map[string]string{}
	for s, err := range w.f.Any().Sandboxes.List(w.Context(), client.SandboxFilter{}) {
		if err != nil {
			w.Fatal(err)
		}
		there[s.Owner.ID] = s.ID
	}
	for owner, id := range w.kept {
		if there[owner] != id {
			w.Errorf("%s was told that it has %s, and has %q", owner, id, there[owner])
		}
	}
	calls := w.f.Calls()
	cut := 0
	for _, c := range calls {
		if c.Outcome == "" && (c.Op == fake.Create || c.Op == fake.Destroy) {
			cut++
		}
	}
	w.Logf("%d servers killed in the middle of %d creates and ends; %d answers, %d sandboxes left", w.kills, cut, w.answered, len(there))
	if cut == 0 {
		w.Error("no server was killed in the middle of anything")
	}
	if found := fleet.Doubles(calls); len(found) > 0 {
		w.Error(found)
	}
}
