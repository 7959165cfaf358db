package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// setting is where and under which faults the clients of one seed work.
type setting struct {
	name  string
	fleet fleet.Options
	chaos func(*chaos)
}

var quiet = []string{"BERTH_LOG_LEVEL=error"}

// settings are taken in turn. Two of ten seeds run on servers of their own.
var settings = []setting{
	{"killed servers", fleet.Options{Replicas: 3, LeaseTTL: 2 * time.Second, Env: quiet}, (*chaos).kill},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quiet}, nil},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quiet}, (*chaos).faults},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quiet}, nil},
	{"postgres, faults", fleet.Options{Replicas: 3, Here: true, Env: quiet}, (*chaos).faults},
	{"paused servers", fleet.Options{Replicas: 3, LeaseTTL: time.Second, Env: quiet}, (*chaos).pause},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quiet}, (*chaos).faults},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quiet}, nil},
	{"broken connections", fleet.Options{Replicas: 3, Here: true, Faulty: true, Env: quiet}, (*chaos).reset},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quiet}, (*chaos).faults},
}

// Many clients ask for everything at once of a few owners, at several servers, while drivers fail, servers
// die and connections break. Whatever they were told fits one order of what happened.
func TestLifecycleIsLinearizablePerOwner(t *testing.T) {
	testkit.Proves(t, "O1", "O2", "O6")
	for seed := range testkit.Size(t, "i13.seeds") {
		s := settings[seed%len(settings)]
		t.Run(fmt.Sprintf("%d %s", seed, s.name), func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, uint64(seed), fleet.New(t, s.fleet))
			began := time.Now()
			c.work(s.chaos)
			worked := time.Since(began)
			c.readAll()
			requests, lost := c.check()
			t.Logf("%d requests, %d without an answer, %v; checked in %v", requests, lost, worked.Round(time.Millisecond), time.Since(began)-worked)
			// One that was paused in the middle of a create makes its instance when it wakes, and ends it.
			if d := fleet.Doubles(c.f.Calls()); len(d) > 0 && s.name != "paused servers" {
				t.Errorf("two instances at once: %v", d)
			}
		})
	}
}

// crowd is the clients of one seed and what they were told.
type crowd struct {
	*testing.T
	f     *fleet.Fleet
	seed  uint64
	began time.Time

	mu      sync.Mutex
	known   map[string][]string // ids by owner, as they were learned
	history map[string][]request
}

func newCrowd(t *testing.T, seed uint64, f *fleet.Fleet) *crowd {
	return &crowd{T: t, f: f, seed: seed, began: time.Now(), known: map[string][]string{}, history: map[string][]request{}}
}

// Few owners at a time, so that requests meet; then others, so that histories stay short.
const (
	ownersAtOnce = 10
	asksEach     = 8 // of one client, before it moves on to other owners
)

func (c *crowd) work(faults func(*chaos)) {
	stop := c.begin(faults)
	defer stop()
	var wg sync.WaitGroup
	for i := range testkit.Size(c, "i13.clients") {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(c.seed, uint64(i)))
			api := c.f.Any(client.WithAttempts(1), client.WithTransport(once{c.f.Transport()}))
			for n := range testkit.Size(c, "i13.operations") {
				owner := fmt.Sprintf("owner-%d-%d", n/asksEach, dice.IntN(ownersAtOnce))
				c.ask(api, i, c.choose(dice, owner))
			}
		})
	}
	wg.Wait()
}

// once sends a request without its Idempotency-Key, so that nobody sends it again.
type once struct{ via http.RoundTripper }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Idempotency-Key")
	return o.via.RoundTrip(req)
}

// verbs are what clients ask for, as often as they stand here.
var verbs = slices.Concat(
	slices.Repeat([]string{"get"}, 68), slices.Repeat([]string{"ensure"}, 16), slices.Repeat([]string{"start"}, 5), slices.Repeat([]string{"stop"}, 4),
	slices.Repeat([]string{"delete"}, 3), slices.Repeat([]string{"terminate"}, 2), slices.Repeat([]string{"restart"}, 2),
)

// choose decides what to ask next, mostly of the sandbox that the owner had last.
func (c *crowd) choose(dice *rand.Rand, owner string) request {
	r := request{verb: verbs[dice.IntN(len(verbs))], owner: owner}
	if r.verb == "ensure" || r.verb == "get" && dice.IntN(2) == 0 {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.known[owner]
	switch {
	case len(ids) == 0:
		r.verb = "ensure"
	case dice.IntN(4) == 0:
		r.id = ids[dice.IntN(len(ids))]
	default:
		r.id = ids[len(ids)-1]
	}
	return r
}

func (c *crowd) ask(to *client.Client, who int, r request) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	r.client, r.call = who, int64(time.Since(c.began))
	row, err := c.send(ctx, to, &r)
	r.ret = int64(time.Since(c.began))
	r.row = seen{row.ID, row.State, row.Want, row.Instance, row.Incarnation, row.DeletedAt != nil}
	r.code = codeOf(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history[r.owner] = append(c.history[r.owner], r)
	if ids := c.known[r.owner]; row.ID != "" && !slices.Contains(ids, row.ID) {
		c.known[r.owner] = append(ids, row.ID)
	}
}

func (c *crowd) send(ctx context.Context, to *client.Client, r *request) (row api.Sandbox, err error) {
	ref := r.id
	if ref == "" {
		ref = r.owner
	}
	switch r.verb {
	case "ensure":
		row, r.made, err = to.Sandboxes.Create(ctx, api.CreateSandbox{Name: r.owner})
	case "get":
		row, err = to.Sandboxes.Get(ctx, ref)
	case "stop":
		row, err = to.Sandboxes.Stop(ctx, ref)
	case "start":
		row, err = to.Sandboxes.Start(ctx, ref)
	case "restart":
		row, err = to.Sandboxes.Restart(ctx, ref)
	case "terminate":
		row, err = to.Sandboxes.Terminate(ctx, ref)
	case "delete":
		err = to.Sandboxes.Delete(ctx, ref)
		r.done = err == nil
	}
	return row, err
}

// codeOf is what kind of problem an error is; an answer that did not come is a timeout.
func codeOf(err error) api.Code {
	var p *api.Problem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &p):
		return p.Code
	}
	return api.CodeTimeout
}

// readAll adds what everybody can see at the end.
func (c *crowd) readAll() {
	to := c.f.Any()
	for owner, ids := range c.known {
		c.ask(to, -1, request{verb: "get", owner: owner})
		for _, id := range ids {
			c.ask(to, -1, request{verb: "get", owner: owner, id: id})
		}
	}
}

// check looks for an order of what happened, owner by owner.
func (c *crowd) check() (requests, lost int) {
	for owner, history := range c.history {
		slices.SortFunc(history, func(a, b request) int { return int(a.call - b.call) })
		for _, r := range history {
			requests++
			if r.code != "" && r.code != api.CodeDeleted && r.code != api.CodeNotFound {
				lost++
			}
		}
		moves := movesOf(history)
		result, info := porcupine.CheckOperationsVerbose(lifecycle, moves, time.Minute)
		if result != porcupine.Ok {
			c.Errorf("%s of seed %d: %s\n%s", owner, c.seed, result, stuck(history, moves, info))
		}
	}
	return requests, lost
}

// stuck tells how far an order could be found: the last moves that fit, what there was then, and the requests
// of which one had to be next.
func stuck(history []request, moves []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, some := range info.PartialLinearizationsOperations()[0] {
		if len(some) > len(longest) {
			longest = some
		}
	}
	var b strings.Builder
	states := lifecycle.Init()
	for i, m := range longest {
		_, states = lifecycle.Step(states, m.Input, m.Output)
		if i >= len(longest)-6 {
			fmt.Fprintf(&b, "  %v\n    by %v\n", m.Input, m.Output)
		}
	}
	fmt.Fprintf(&b, "  then there is %+v, and none of these fits:\n", states.(worlds).may)
	left := slices.DeleteFunc(slices.Clone(moves), func(m porcupine.Operation) bool { return slices.Contains(longest, m) })
	first := int64(math.MaxInt64)
	for _, m := range left {
		first = min(first, m.Return)
	}
	for _, m := range left {
		if m.Call <= first {
			fmt.Fprintf(&b, "  %v\n    by %v\n", m.Input, m.Output)
		}
	}
	fmt.Fprintln(&b, "  the whole history:")
	for _, r := range history {
		fmt.Fprintf(&b, "  %v\n", r)
	}
	return b.String()
}

// chaos is what happens to the servers while clients work.
type chaos struct {
	f    *fleet.Fleet
	dice *rand.Rand
	done chan struct{}
	t    *testing.T
}

// begin lets the faults happen until the returned function is called.
func (c *crowd) begin(faults func(*chaos)) (end func()) {
	if faults == nil {
		return func() {}
	}
	x := &chaos{f: c.f, dice: rand.New(rand.NewPCG(c.seed, 1<<32)), done: make(chan struct{}), t: c.T}
	var wg sync.WaitGroup
	wg.Go(func() { faults(x) })
	return func() { close(x.done); wg.Wait() }
}

// every does it again and again, with pauses of about the given length, until the clients are done.
func (x *chaos) every(pause time.Duration, do func() error) {
	for {
		select {
		case <-x.done:
			return
		case <-time.After(pause/2 + time.Duration(x.dice.Int64N(int64(pause)))):
		}
		if err := do(); err != nil {
			x.t.Error(err)
			return
		}
	}
}

// faults makes calls of the driver fail, before and after their effect.
func (x *chaos) faults() {
	ops := []fake.Op{fake.Create, fake.Destroy, fake.Stop, fake.Start, fake.List, fake.Inspect}
	kinds := []string{"unreachable", "transient", "error"}
	x.every(300*time.Millisecond, func() error {
		var faults []fake.Fault
		for range 1 + x.dice.IntN(3) {
			faults = append(faults, fake.Fault{
				Op: ops[x.dice.IntN(len(ops))], Error: kinds[x.dice.IntN(len(kinds))],
				After: x.dice.IntN(2) == 0, Slow: time.Duration(x.dice.IntN(5)) * time.Millisecond, Times: 1 + x.dice.IntN(5),
			})
		}
		return fake.SetFaults(x.f.Dir, faults)
	})
	if err := fake.SetFaults(x.f.Dir, nil); err != nil {
		x.t.Error(err)
	}
}

func (x *chaos) kill() {
	x.every(time.Second, func() error {
		i := x.dice.IntN(3)
		x.f.Kill(i)
		return x.f.Start(i)
	})
}

// pause stops a server for longer than its leases last, now and then while it waits for the driver.
func (x *chaos) pause() {
	if err := fake.SetFaults(x.f.Dir, []fake.Fault{{Op: fake.Create, Slow: 20 * time.Millisecond}}); err != nil {
		x.t.Error(err)
	}
	x.every(time.Second, func() error {
		i := x.dice.IntN(3)
		x.f.Pause(i)
		<-time.After(1300 * time.Millisecond)
		x.f.Resume(i)
		return nil
	})
}

func (x *chaos) reset() {
	x.every(500*time.Millisecond, func() error {
		if err := x.f.Database.Reset(0.3, 5*time.Millisecond); err != nil {
			return err
		}
		<-time.After(100 * time.Millisecond)
		return x.f.Database.Heal()
	})
}
