package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

var (
	isUp  = Observation{Sight: Up}
	dumb  = Observation{Sight: Up, Ill: IllInside, Detail: "helper is gone"}
	noAPI = Observation{Sight: Up, Ill: AgentIsIll, Detail: "connection refused"}
)

// A failed probe leaves the instance as it is: the next one decides, and not before its time.
func TestOneFailedProbeEvictsNothing(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	for _, o := range []Observation{dumb, noAPI} {
		steps, _ := Plan(t0, running(), o, rules)
		wantSteps(t, "the first failed probe", steps, "mark sick")
		s := follow(t, t0, running(), steps)
		if s.State != Unhealthy || s.Instance != "i" || !s.StartedAt.Equal(t0) {
			t.Fatalf("after one failed probe: %+v", s)
		}
		again := t0.Add(rules.ProbeAgain)
		for now := t0; now.Before(again); now = now.Add(100 * time.Millisecond) {
			for _, seen := range []Observation{{}, o} {
				if steps, due := Plan(now, s, seen, rules); len(steps) > 0 || !due.Equal(again) {
					t.Fatalf("%s after the failed probe: %q, due %s", now.Sub(t0), words(steps), due)
				}
			}
		}
		steps, _ = Plan(again, s, Observation{}, rules)
		wantSteps(t, "when it is time", steps, "observe")
		steps, _ = Plan(again, s, isUp, rules)
		wantSteps(t, "well again", steps, "mark ready")
		if well := follow(t, again, s, steps); well.State != Running || !well.StartedAt.Equal(t0) || well.Failure != nil {
			t.Errorf("well again, and it is %+v", well)
		}
	}
}

func TestIllnessDecidesWhatIsDone(t *testing.T) {
	testkit.Proves(t, "O4")
	now := t0.Add(time.Minute)
	broken := sick()
	broken.State = Failed
	broken.ActiveAt = now // used again
	for _, c := range []struct {
		name           string
		s              Sandbox
		o              Observation
		noStop, noSave bool
		want           string
	}{
		{"agent", sick(), noAPI, false, true, "heal, mark ready"},
		{"agent, and nothing can be stopped or saved", sick(), noAPI, true, true, "heal, mark ready"},
		{"all", sick(), dumb, false, true, "stop, mark start, start, restore, mark ready"},
		{"all, and it cannot be stopped", sick(), dumb, true, false, "save, mark end archive"},
		{"all, and it cannot be stopped or saved", sick(), dumb, true, true, "mark fail"},
		{"gone meanwhile", sick(), Observation{Sight: Missing}, false, true, "mark lost"},
		{"halted meanwhile", sick(), Observation{Sight: Down}, false, true, "mark halted"},
		{"broken meanwhile", sick(), Observation{Sight: Broken}, false, true, "mark fail"},

		{"in error, agent", broken, noAPI, false, true, "stop, mark start, start, restore, mark ready"},
		{"in error, agent, and it cannot be stopped", broken, noAPI, true, true, "mark start, restore, mark ready"},
		{"in error, well", broken, isUp, false, true, "mark start, start, restore, mark ready"},
		{"in error, well, and it cannot be stopped", broken, isUp, true, true, "mark start, restore, mark ready"},
		{"in error, all, and it cannot be stopped", broken, dumb, true, false, "save, mark end archive"},
		{"in error, all, and it cannot be stopped or saved", broken, dumb, true, true, "mark fail"},
		{"in error, halted, and it cannot be stopped or saved", broken, Observation{Sight: Down}, true, true, "mark fail"},
	} {
		p := rules
		p.NoStop, p.NoSave = c.noStop, c.noSave
		steps, _ := Plan(now, c.s, c.o, p)
		wantSteps(t, c.name, steps, c.want)
	}
}

// A sandbox that comes back too often is left in error; its next use tries again, and so does the engine
// once the window has passed.
func TestBreakerEndsRecoveriesThatDoNotLast(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	for name, fall := range map[string]struct {
		o    Observation
		want string
	}{
		"ill":     {dumb, "mark sick"},
		"missing": {Observation{Sight: Missing}, "mark lost"},
		"halted":  {Observation{Sight: Down}, "mark halted"},
	} {
		s, now := running(), t0
		for range rules.Breaker.Attempts {
			now = now.Add(time.Minute)
			steps, _ := Plan(now, s, fall.o, rules)
			wantSteps(t, name, steps, fall.want)
			s = follow(t, now, s, steps)
			s.State, s.Instance = Running, "i" // it recovers
		}
		now = now.Add(time.Minute)
		steps, _ := Plan(now, s, fall.o, rules)
		wantSteps(t, name+" once too often", steps, "mark fail")
		if f := steps[0].Failure; f == nil || !f.Final || f.Code != api.CodeUnhealthy || !strings.Contains(f.Message, "2 times within 10m") {
			t.Errorf("%s: the failure says %+v", name, f)
		}
		left := follow(t, now, s, steps)
		if steps, due := Plan(now.Add(time.Hour), left, Observation{}, rules); len(steps) > 0 || !due.IsZero() {
			t.Errorf("%s: tried again by itself: %q, due %s", name, words(steps), due)
		}
		left.ActiveAt = now.Add(time.Second)
		if steps, _ := Plan(now.Add(time.Second), left, Observation{}, rules); words(steps) != "observe" {
			t.Errorf("%s: the next use: %q", name, words(steps))
		}
		later := s.Recovered.Since.Add(rules.Breaker.Window + time.Second)
		s.ProbedAt = later
		if steps, _ := Plan(later, s, fall.o, rules); words(steps) != fall.want || steps[0].Recovered.Count != 1 {
			t.Errorf("%s after the window: %q", name, words(steps))
		}
	}
	if _, open := (Breaker{}).add(Recoveries{Count: 1000, Since: t0}, t0); open {
		t.Error("a breaker without a number of attempts opened")
	}
}

func TestWithoutRecoveryItIsLeftToTheNextUse(t *testing.T) {
	testkit.Proves(t, "P4")
	p := rules
	p.NoRecover = true
	now := t0.Add(time.Minute)
	for _, c := range []struct {
		name string
		s    Sandbox
		o    Observation
		want string
	}{
		{"one failed probe", running(), dumb, "mark sick"},
		{"two", sick(), dumb, "mark fail"},
		{"two of the agent", sick(), noAPI, "mark fail"},
		{"missing", running(), Observation{Sight: Missing}, "mark fail"},
		{"halted", running(), Observation{Sight: Down}, "mark fail"},
		{"missing after a failed probe", sick(), Observation{Sight: Missing}, "mark fail"},
		{"well after a failed probe", sick(), isUp, "mark ready"},
	} {
		steps, _ := Plan(now, c.s, c.o, p)
		wantSteps(t, c.name, steps, c.want)
		if c.want != "mark fail" {
			continue
		}
		left := follow(t, now, c.s, steps)
		if steps, due := Plan(now.Add(time.Hour), left, Observation{}, p); len(steps) > 0 || !due.IsZero() {
			t.Errorf("%s: recovered unasked: %q", c.name, words(steps))
		}
		left.ActiveAt = now.Add(time.Second)
		steps, _ = Plan(left.ActiveAt, left, Observation{}, p)
		wantSteps(t, c.name+", then used", steps, "observe")
	}
	used := sick()
	used.ActiveAt = t0.Add(time.Second)
	steps, _ := Plan(now, used, dumb, p)
	wantSteps(t, "used since it fell ill", steps, "stop, mark start, start, restore, mark ready")
}

// Probes of many sandboxes that became ready together do not come together.
func TestProbesAreSpreadOut(t *testing.T) {
	testkit.Proves(t, "P4")
	at := map[time.Time]int{}
	for i := range 1000 {
		s := running()
		s.ID = strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		_, due := Plan(t0, s, Observation{}, rules)
		if d := due.Sub(t0); d < 45*time.Second || d > 75*time.Second {
			t.Fatalf("looked at after %s", d)
		}
		at[due.Truncate(time.Second)]++
	}
	for when, n := range at {
		if n > 150 {
			t.Errorf("%d of 1000 come together, after %s", n, when.Sub(t0))
		}
	}
	never := rules
	never.ProbeEvery = 0
	if steps, due := Plan(t0.Add(time.Hour), running(), Observation{}, never); len(steps) > 0 || !due.IsZero() {
		t.Errorf("probed although that is off: %q, due %s", words(steps), due)
	}
}
