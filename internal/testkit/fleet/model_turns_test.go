package fleet_test

import (
	"slices"

	"github.com/berthdev/berth/internal/sandbox"
)

// turn is how the servers may change a sandbox by themselves.
type turn struct {
	from, to string
	born     bool // under a new incarnation
}

// begins are the turns that a wish leads to, as long as it is the last one.
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

// ends are the turns that finish what was begun, whatever is wanted by then, or say what was found after a
// server's end: that nothing was made, or that it is stopped.
var ends = []turn{
	{"creating", "running", false}, {"creating", "error", false}, {"starting", "running", false}, {"starting", "error", false},
	{"stopping", "stopped", false}, {"terminating", "terminated", false},
	{"creating", "terminated", false}, {"error", "terminated", false}, {"starting", "stopped", false}, {"error", "stopped", false},
}

// places is a set of states in which a sandbox may be, each with how often it was reborn on the way there: not
// at all, once, or more often.
type places uint64

const births = 3

// at is one such place, or none for what cannot be.
func at(state string, born int64) places {
	if born < 0 {
		return 0
	}
	return 1 << (slices.Index(sandbox.States, sandbox.State(state))*births + int(min(born, births-1)))
}

// onward is everywhere that the servers may have brought the sandbox from any of these places.
func (p places) onward(want string) (all places) {
	for from := range len(reach[want]) {
		if p&(1<<from) != 0 {
			all |= reach[want][from]
		}
	}
	return all
}

// reach is where the turns lead, by wish and by place.
var reach = func() map[string][]places {
	all := map[string][]places{}
	for want := range begins {
		for from := range len(sandbox.States) * births {
			all[want] = append(all[want], follow(slices.Concat(begins[want], ends), 1<<from))
		}
	}
	return all
}()

// follow takes turns until they lead nowhere new.
func follow(turns []turn, p places) places {
	for {
		before := p
		for _, t := range turns {
			for born := range int64(births) {
				if p&at(t.from, born) == 0 {
					continue
				}
				if t.born {
					p |= at(t.to, born+1)
				} else {
					p |= at(t.to, born)
				}
			}
		}
		if p == before {
			return p
		}
	}
}
