package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

// words are a plan's steps for a table: "stop, mark halted".
func words(steps []Step) string {
	var said []string
	for _, s := range steps {
		said = append(said, strings.Join(strings.Fields(strings.Join([]string{string(s.Op), string(s.Event), s.Final, string(s.Want), string(s.Instance)}, " ")), " "))
	}
	return strings.Join(said, ", ")
}

func wantSteps(t *testing.T, what string, steps []Step, want string) {
	t.Helper()
	if got := words(steps); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// rules are a policy that is easy to reckon with.
var rules = Policy{
	Backoff:    Backoff{Base: time.Second, Max: time.Minute, Attempts: 5},
	RetryEvery: 5 * time.Second,
	ProbeEvery: time.Minute,
	ProbeAgain: 2 * time.Second,
	Breaker:    Breaker{Attempts: 2, Window: 10 * time.Minute},

	UnreachableAfter: 5 * time.Minute,
	SaveFor:          10 * time.Minute,
}

// running is a sandbox that runs, was last used at t0 and looked at then.
func running() Sandbox {
	return Sandbox{ID: "s", State: Running, Want: WantRunning, Instance: "i", Incarnation: 1, ActiveAt: t0, StartedAt: t0, ProbedAt: t0}
}

// sick is one that failed a probe at t0.
func sick() Sandbox {
	s := running()
	s.State, s.Failure = Unhealthy, &Failure{Code: api.CodeUnhealthy, Message: "no answer", At: t0, Want: WantRunning, Attempts: 1}
	return s
}

// follow takes the record through a plan's marks, as a store would.
func follow(t *testing.T, now time.Time, s Sandbox, steps []Step) Sandbox {
	t.Helper()
	for _, step := range steps {
		if step.Op != OpMark {
			continue
		}
		to, err := Next(s.State, step.Event)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(Change{Event: step.Event, Instance: s.Instance, Failure: step.Failure, Recovered: step.Recovered}, to, now)
	}
	return s
}
