package fleet_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fleet"
)

// setting is the configuration of the fleet and the faults for one seed.
type setting struct {
	name  string
	fleet fleet.Options
	chaos func(*chaos)
}

var quietLog = []string{"BERTH_LOG_LEVEL=error"}

// settings are used in turn. In two of ten the servers are separate processes.
var settings = []setting{
	{"killed servers", fleet.Options{Replicas: 3, LeaseTTL: 3 * time.Second, Env: quietLog}, (*chaos).kill},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quietLog}, nil},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quietLog}, (*chaos).faults},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quietLog}, nil},
	{"postgres, faults", fleet.Options{Replicas: 3, Here: true, Env: quietLog}, (*chaos).faults},
	{"paused servers", fleet.Options{Replicas: 3, LeaseTTL: time.Second, Env: quietLog}, (*chaos).pause},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quietLog}, (*chaos).faults},
	{"sqlite", fleet.Options{SQLite: true, Here: true, Env: quietLog}, nil},
	{"broken connections", fleet.Options{Replicas: 3, Here: true, Faulty: true, LeaseTTL: 3 * time.Second, Env: quietLog}, (*chaos).reset},
	{"sqlite, faults", fleet.Options{SQLite: true, Here: true, Env: quietLog}, (*chaos).faults},
}

// Many clients send all kinds of requests for a few owners to several servers at once, while drivers fail, servers
// die and connections break. For each owner there is one order of events that explains all answers.
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
			c.checkInstances(s.fleet.LeaseTTL == 0)
		})
	}
}

// check searches, for each owner, an order of events that explains all answers. It returns the number of requests, and
// the number of requests that failed with an error other than "not found" and "deleted".
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
		if result := porcupine.CheckOperationsTimeout(lifecycle, moves, time.Minute); result != porcupine.Ok {
			c.Errorf("%s of seed %d: %s\n%s", owner, c.seed, result, describeStuck(history, moves))
		}
	}
	return requests, lost
}

// describeStuck describes the longest order that was found: its last moves, the possible worlds after them, and the
// moves of which one had to be next.
func describeStuck(history []request, moves []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(lifecycle, moves, 10*time.Second)
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

// checkInstances checks that all is settled in the end. If always is true, it also checks that no owner ever had two
// instances at once. With short leases this may happen: a server that loses its lease during a create still makes the
// instance, and then ends it.
func (c *crowd) checkInstances(always bool) {
	testkit.Eventually(c, 2*time.Minute, func() error { return c.f.Unsettled(c.Context()) })
	if found := append(fleet.Doubles(c.f.Calls()), fleet.Overlaps(c.f.Lives(), nil)...); always && len(found) > 0 {
		c.Errorf("two instances at once: %v", found)
	}
}
