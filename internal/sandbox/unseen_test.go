package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// unseen is what is observed of an instance that its driver could say nothing about since then.
func unseen(since time.Time) Observation {
	return Observation{Sight: Unclear, Since: since, Detail: "node not ready"}
}

// away is a sandbox whose driver cannot be asked.
func away() Sandbox {
	s := running()
	s.ID = "away"
	return s
}

func choice(u Unseen) Policy {
	p := rules
	p.Unreachable = u
	return p
}

// However long nobody has looked, a driver that does not answer now is away for a moment first.
func TestShortOutageEvictsNothing(t *testing.T) {
	testkit.Proves(t, "O4")
	for _, u := range []Unseen{"", UnseenWait, UnseenReplace, UnseenFence} {
		for _, asleep := range []time.Duration{0, time.Hour, 30 * 24 * time.Hour} {
			away := t0.Add(asleep) // the server was down until then, or probes are off
			for _, gone := range []time.Duration{0, time.Second, rules.UnreachableAfter - time.Second} {
				now := away.Add(gone)
				for _, o := range []Observation{unseen(away), {Sight: Unreachable, Since: away}, {Sight: Unclear}} {
					steps, due := Plan(now, running(), o, choice(u))
					if len(steps) > 0 || !due.After(now) || due.After(now.Add(10*time.Second)) {
						t.Errorf("%s, not looked at for %s, unseen for %s: %q, due in %s", u, asleep, gone, words(steps), due.Sub(now))
					}
				}
			}
		}
	}
}

func TestUnreachableChoices(t *testing.T) {
	testkit.Proves(t, "O4")
	now := t0.Add(rules.UnreachableAfter)
	stopping, creating, starting, stopped := running(), running(), running(), running()
	stopping.State, creating.State, starting.State, stopped.State = Stopping, Creating, Starting, Stopped
	creating.Instance = ""
	asked := running()
	asked.Want = WantStopped
	for _, c := range []struct {
		name                 string
		s                    Sandbox
		wait, replace, fence string
	}{
		{"running", running(), "", "mark lost", "destroy i, mark lost"},
		{"running, and the driver is away", away(), "", "", "destroy i, mark lost"},
		{"unhealthy", sick(), "", "mark lost", "destroy i, mark lost"},
		{"starting", starting, "", "mark lost", "destroy i, mark lost"},
		{"stopping, and wanted again", stopping, "", "mark lost", "destroy i, mark lost"},
		{"stopped, and wanted", stopped, "", "mark lost", "destroy i, mark lost"},
		{"creating", creating, "", "", ""},
		{"asked to stop", asked, "", "", ""},
	} {
		for u, want := range map[Unseen]string{UnseenWait: c.wait, UnseenReplace: c.replace, UnseenFence: c.fence} {
			p := choice(u)
			p.NoRecover = c.s.State != Running && c.s.State != Unhealthy // a start that was asked for is no recovery
			o := unseen(t0)
			if c.s.ID == "away" {
				o.Sight = Unreachable
			}
			steps, due := Plan(now, c.s, o, p)
			wantSteps(t, c.name+", "+string(u), steps, want)
			follow(t, now, c.s, steps)
			if want == "" && !due.After(now) {
				t.Errorf("%s, %s: not looked at again", c.name, u)
			}
			if want != "" && (!strings.Contains(steps[0].Reason, string(u)) || !strings.Contains(steps[0].Reason, "node not ready")) {
				t.Errorf("%s, %s: the reason is %q", c.name, u, steps[0].Reason)
			}
		}
	}
}

// A driver that is away cannot confirm the end of anything, whatever was chosen.
func TestEndWaitsForTheDriver(t *testing.T) {
	testkit.Proves(t, "O4", "O6")
	revived, gone := running(), running()
	revived.State = Terminating
	gone.Want, gone.DeletedAt = WantGone, t0
	for _, u := range []Unseen{UnseenWait, UnseenReplace, UnseenFence} {
		for _, s := range []Sandbox{revived, gone} {
			now := t0.Add(time.Hour)
			if steps, due := Plan(now, s, Observation{Sight: Unreachable, Since: t0}, choice(u)); len(steps) > 0 || !due.After(now) {
				t.Errorf("%s, wanted %s, %s: %q, due %s", s.State, s.Want, u, words(steps), due)
			}
		}
	}
}

// What is not going to be replaced is not fenced off either: its volume may be all there is.
func TestFenceEndsNothingThatIsNotReplaced(t *testing.T) {
	testkit.Proves(t, "O4", "P4")
	now := t0.Add(rules.UnreachableAfter)
	flapping := running()
	flapping.Recovered = Recoveries{Count: rules.Breaker.Attempts, Since: t0}
	steps, _ := Plan(now, flapping, unseen(t0), choice(UnseenFence))
	wantSteps(t, "breaker open", steps, "mark fail")
	p := choice(UnseenFence)
	p.NoRecover = true
	steps, _ = Plan(now, running(), unseen(t0), p)
	wantSteps(t, "no recovery", steps, "mark fail")
}

// An unclear phase is not an end; but whoever deletes a sandbox wants it ended in any.
func TestUnclearPhaseIsEndedByADeleteAlone(t *testing.T) {
	testkit.Proves(t, "O4", "O6")
	o := Observation{Sight: Unclear, Since: t0}
	steps, _ := Plan(t0.Add(time.Hour), running(), o, rules)
	wantSteps(t, "running", steps, "")
	s := running()
	s.State, s.Want, s.DeletedAt = Terminating, WantGone, t0
	s.Finalizers = []string{FinalInstance}
	steps, _ = Plan(t0.Add(time.Hour), s, o, rules)
	wantSteps(t, "deleted", steps, "destroy i, mark final instance, mark ended")
}
