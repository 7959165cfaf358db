package sandbox

import (
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBackoffGrowsAndIsCapped(t *testing.T) {
	b := Backoff{Base: time.Second, Max: time.Minute}
	last := time.Duration(0)
	for n := 1; n <= 6; n++ {
		d := b.Delay("a", n)
		if d <= last {
			t.Errorf("attempt %d waits %s, the one before %s", n, d, last)
		}
		last = d
	}
	if d := b.Delay("a", 1000); d > 75*time.Second {
		t.Errorf("not capped: %s", d)
	}
	if b.Delay("a", 3) == b.Delay("b", 3) {
		t.Error("two sandboxes that failed together come back together")
	}
}

// timers walks one idle sandbox through time and returns what its timers asked for, and when.
func timers(kind OwnerKind, held time.Duration) map[Want]time.Duration {
	p := DefaultPolicy(kind)
	p.ProbeEvery = 0
	s := Sandbox{ID: "s", Owner: Owner{"default", kind, "x"}, State: Running, Want: WantRunning, Instance: "i", ActiveAt: t0, StartedAt: t0, HeldUntil: t0.Add(held)}
	asked := map[Want]time.Duration{}
	now := t0
	for range 20 {
		steps, due := Plan(now, s, Observation{}, p)
		if len(steps) > 0 && steps[0].Op == OpAsk {
			asked[steps[0].Want] = now.Sub(t0)
			s.Want = steps[0].Want
			s.State = map[Want]State{WantStopped: Stopped, WantArchived: Archived, WantGone: Terminated}[s.Want]
			continue
		}
		if due.IsZero() {
			break
		}
		now = due
	}
	return asked
}

func TestTimersPerOwnerKind(t *testing.T) {
	got := timers(OwnerThread, 0)
	if got[WantStopped] != 5*time.Minute || got[WantArchived] != time.Hour || got[WantGone] != 48*time.Hour {
		t.Errorf("thread: %v", got)
	}
	got = timers(OwnerConversation, 0)
	if got[WantStopped] != 15*time.Minute || got[WantArchived] != 24*time.Hour || len(got) != 2 {
		t.Errorf("conversation: %v", got)
	}
	if got := timers(OwnerProject, 0); len(got) != 0 {
		t.Errorf("project: %v", got)
	}
}

func TestHoldsKeepTimersAway(t *testing.T) {
	if got := timers(OwnerThread, 30*time.Minute); got[WantStopped] != 30*time.Minute {
		t.Errorf("stopped after %s, although held for 30m", got[WantStopped])
	}
}

func TestFailedWaitsUnlessUsedAgain(t *testing.T) {
	p := DefaultPolicy(OwnerSandbox)
	s := Sandbox{ID: "s", State: Failed, Want: WantRunning, ActiveAt: t0, Failure: &Failure{At: t0, Want: WantRunning, Attempts: 1}}
	if steps, due := Plan(t0, s, Observation{}, p); len(steps) > 0 || !due.After(t0) {
		t.Errorf("tried at once: %v, due %s", steps, due)
	}
	_, due := Plan(t0, s, Observation{}, p)
	if steps, _ := Plan(due, s, Observation{}, p); len(steps) == 0 {
		t.Error("not tried when due")
	}
	s.Failure.Attempts = p.Backoff.Attempts
	if steps, due := Plan(t0.Add(time.Hour), s, Observation{}, p); len(steps) > 0 || !due.IsZero() {
		t.Errorf("tried after giving up: %v, due %s", steps, due)
	}
	s.ActiveAt = t0.Add(time.Second)
	if steps, _ := Plan(t0.Add(time.Second), s, Observation{}, p); len(steps) == 0 {
		t.Error("a new use must try again")
	}
	s.ActiveAt, s.Want = t0, WantStopped
	if steps, _ := Plan(t0, s, Observation{}, p); len(steps) == 0 {
		t.Error("a new wish must not wait for the old one's back-off")
	}
}
