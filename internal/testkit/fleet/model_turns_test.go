package fleet_test

import (
	"slices"

	"github.com/berthdev/berth/internal/sandbox"
)

// turn is a change of state that the servers may make by themselves.
type turn struct {
	from, to string
	born     bool // whether the sandbox gets a new incarnation
}

// begins lists the turns that may begin while the wish in the key is the last one.
var begins = map[string][]turn{
	"running": {
		{"pending", "creating", true}, {"creating", "creating", true}, {"terminated", "creating", true}, {"error", "creating", true},
		{"stopped", "starting", false}, {"error", "starting", false},
	},
	"stopped": {
		{"running", "stopping", false}, {"starting", "stopping", false}, {"error", "stopping", false},
	},
	"gone": {
		{"pending", "terminating", false}, {"creating", "terminating", false}, {"running", "terminating", false},
		{"stopping", "terminating", false}, {"stopped", "terminating", false}, {"starting", "terminating", false},
		{"error", "terminating", false},
	},
}

// ends lists the turns that are possible under any wish. They finish an earlier turn, or record the state after a
// server's end: no instance was made, or the instance is stopped.
var ends = []turn{
	{"creating", "running", false}, {"creating", "error", false}, {"starting", "running", false}, {"starting", "error", false},
	{"stopping", "stopped", false}, {"terminating", "terminated", false},
	{"creating", "terminated", false}, {"error", "terminated", false}, {"starting", "stopped", false}, {"error", "stopped", false},
}

// places is a set of possible states of a sandbox, each with the number of new incarnations on the way there: 0, 1, or
// at least 2.
type places uint64

const births = 3

// placeOf returns the set with one place, or the empty set if born is negative.
func placeOf(state string, born int64) places {
	if born < 0 {
		return 0
	}
	return 1 << (slices.Index(sandbox.States, sandbox.State(state))*births + int(min(born, births-1)))
}

// onward returns all places that the servers may reach from these places under a wish.
func (p places) onward(want string) (all places) {
	for from := range len(reach[want]) {
		if p&(1<<from) != 0 {
			all |= reach[want][from]
		}
	}
	return all
}

// reach holds the places that the turns lead to, by wish and by first place.
var reach = func() map[string][]places {
	all := map[string][]places{}
	for want := range begins {
		for from := range len(sandbox.States) * births {
			all[want] = append(all[want], follow(slices.Concat(begins[want], ends), 1<<from))
		}
	}
	return all
}()

// follow adds the places that the turns lead to, until there are no new ones.
func follow(turns []turn, p places) places {
	for {
		before := p
		for _, t := range turns {
			for born := range int64(births) {
				if p&placeOf(t.from, born) == 0 {
					continue
				}
				if t.born {
					p |= placeOf(t.to, born+1)
				} else {
					p |= placeOf(t.to, born)
				}
			}
		}
		if p == before {
			return p
		}
	}
}
