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
