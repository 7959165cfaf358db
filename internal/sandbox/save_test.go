package sandbox

import (
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

func TestWhenAWorkspaceIsSaved(t *testing.T) {
	testkit.Proves(t, "S18")
	rules := Policy{SaveAfter: 30 * time.Second, SaveEvery: 5 * time.Minute}
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		change func(*Sandbox, *Policy)
		due    time.Time // zero: never
	}{
		"everything is saved":                    {func(s *Sandbox, _ *Policy) { s.UnsavedSince = time.Time{} }, time.Time{}},
		"quiet since the first change":           {func(*Sandbox, *Policy) {}, at(30)},
		"changed again":                          {func(s *Sandbox, _ *Policy) { s.ChangedAt = at(100) }, at(130)},
		"changes without end":                    {func(s *Sandbox, _ *Policy) { s.ChangedAt = at(299) }, at(300)},
		"only processes ran since the last save": {func(s *Sandbox, _ *Policy) { s.ChangedAt = at(-60) }, at(300)},
		"a turn runs":                            {func(_ *Sandbox, p *Policy) { p.TurnUntil = at(500) }, at(500)},
		"stopped":                                {func(s *Sandbox, _ *Policy) { s.State, s.Want = Stopped, WantStopped }, at(30)},
		"no instance":                            {func(s *Sandbox, _ *Policy) { s.Instance = "" }, time.Time{}},
		"cannot be saved":                        {func(_ *Sandbox, p *Policy) { p.NoSave = true }, time.Time{}},
		"switched off":                           {func(_ *Sandbox, p *Policy) { p.SaveAfter = 0 }, time.Time{}},
	} {
		s, p := Sandbox{ID: "a", State: Running, Want: WantRunning, Instance: "i", UnsavedSince: t0, ChangedAt: t0, ProbedAt: t0}, rules
		c.change(&s, &p)
		steps, due := Plan(t0, s, Observation{}, p)
		if len(steps) > 0 || !due.Equal(c.due) {
			t.Errorf("%s: %v, due %v, want %v", name, steps, due, c.due)
		}
		if c.due.IsZero() {
			continue
		}
		if steps, _ := Plan(c.due, s, Observation{}, p); len(steps) != 1 || steps[0].Op != OpObserve {
			t.Errorf("%s: without a look: %v", name, steps)
		}
		seen := Observation{Sight: Up}
		if s.State == Stopped {
			seen.Sight = Down
		}
		if steps, _ := Plan(c.due, s, seen, p); len(steps) != 1 || steps[0].Op != OpSave || !steps[0].Soft {
			t.Errorf("%s: when it is due: %v", name, steps)
		}
	}
}

func TestFailedSavesArePacedAndNeverEndAnything(t *testing.T) {
	p := Policy{SaveAfter: 30 * time.Second, SaveEvery: 5 * time.Minute}
	s := Sandbox{ID: "a", State: Running, Want: WantRunning, Instance: "i", UnsavedSince: t0, ChangedAt: t0}
	now, last := t0.Add(30*time.Second), time.Duration(0)
	for attempt := 1; attempt < 20; attempt++ {
		s.SaveFailure = &Failure{At: now, Attempts: attempt}
		steps, due := Plan(now, s, Observation{Sight: Up}, p)
		pause := due.Sub(now)
		if len(steps) > 0 || pause < last || pause < 3*time.Second || pause > 80*time.Second {
			t.Fatalf("after %d failures: %v, %v after %v", attempt, steps, pause, last)
		}
		now, last = due, pause
	}
}

func TestAStopSavesFirst(t *testing.T) {
	testkit.Proves(t, "S18")
	p := Policy{SaveAfter: 30 * time.Second, SaveEvery: 5 * time.Minute}
	s := Sandbox{ID: "a", State: Running, Want: WantStopped, Instance: "i", UnsavedSince: t0, ChangedAt: t0}
	steps, _ := Plan(t0, s, Observation{}, p)
	if len(steps) != 4 || steps[0].Op != OpSave || !steps[0].Soft || steps[1].Event != EventStop {
		t.Errorf("unsaved: %v", steps)
	}
	s.UnsavedSince = time.Time{}
	if steps, _ := Plan(t0, s, Observation{}, p); len(steps) != 3 || steps[0].Event != EventStop {
		t.Errorf("saved: %v", steps)
	}
}
