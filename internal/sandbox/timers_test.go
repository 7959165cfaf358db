package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

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
	testkit.Proves(t, "T6")
	got := timers(OwnerThread, 0)
	if got[WantStopped] != 5*time.Minute || got[WantArchived] != time.Hour || got[WantGone] != 48*time.Hour {
		t.Errorf("thread: %v", got)
	}
	got = timers(OwnerConversation, 0)
	if got[WantStopped] != 15*time.Minute || got[WantArchived] != 24*time.Hour || len(got) != 2 {
		t.Errorf("conversation: %v", got)
	}
	if got := timers(OwnerSandbox, 0); got[WantStopped] != 15*time.Minute || got[WantArchived] != 24*time.Hour || len(got) != 2 {
		t.Errorf("sandbox: %v", got)
	}
	if got := timers(OwnerProject, 0); len(got) != 0 {
		t.Errorf("project: %v", got)
	}
}

func TestHoldsKeepTimersAway(t *testing.T) {
	testkit.Proves(t, "T6")
	if got := timers(OwnerThread, 30*time.Minute); got[WantStopped] != 30*time.Minute {
		t.Errorf("stopped after %s, although held for 30m", got[WantStopped])
	}
}

var everything = Timers{Stop: 5 * time.Minute, Archive: time.Hour, Delete: 48 * time.Hour, MaxAge: 2 * time.Minute}

// The time since it became ready counts for the greatest age, and is its own for each start: time that it
// lay stopped is not lived.
func TestGreatestAgeCountsFromTheStart(t *testing.T) {
	testkit.Proves(t, "T6")
	p := rules
	p.ProbeEvery, p.Timers = 0, Timers{MaxAge: time.Hour}
	s := running()
	s.ActiveAt = t0.Add(59 * time.Minute) // used all the time
	steps, due := Plan(s.ActiveAt, s, Observation{}, p)
	if len(steps) > 0 || !due.Equal(t0.Add(time.Hour)) {
		t.Errorf("%q, due %s", words(steps), due)
	}
	steps, _ = Plan(due, s, Observation{}, p)
	wantSteps(t, "of age", steps, "ask stopped")
	s.HeldUntil = due.Add(time.Minute)
	if steps, later := Plan(due, s, Observation{}, p); len(steps) > 0 || !later.Equal(s.HeldUntil) {
		t.Errorf("held: %q, due %s", words(steps), later)
	}
	s.HeldUntil, s.State, s.Want = time.Time{}, Stopped, WantStopped
	if steps, due := Plan(t0.Add(100*time.Hour), s, Observation{}, p); len(steps) > 0 || !due.IsZero() {
		t.Errorf("stopped: %q, due %s", words(steps), due)
	}
	back := t0.Add(100 * time.Hour)
	s = s.Apply(Change{Event: EventReady, Instance: "i"}, Running, back)
	s.Want, s.ActiveAt = WantRunning, back
	if steps, due := Plan(back, s, Observation{}, p); len(steps) > 0 || !due.Equal(back.Add(time.Hour)) {
		t.Errorf("started again: %q, due %s", words(steps), due)
	}
}

// A sandbox in error that has an instance costs something, and is let go like any other. One whose driver
// refuses it stays as it is, for a person.
func TestTimersReachWhatIsInError(t *testing.T) {
	testkit.Proves(t, "T6")
	p := rules
	p.Timers = Timers{Stop: 15 * time.Minute}
	s := running()
	s.State, s.Failure = Failed, &Failure{Code: api.CodeUnhealthy, At: t0, Want: WantRunning, Attempts: 1, Final: true}
	steps, due := Plan(t0, s, Observation{}, p)
	if len(steps) > 0 || !due.Equal(t0.Add(15*time.Minute)) {
		t.Errorf("%q, due %s", words(steps), due)
	}
	steps, _ = Plan(due, s, Observation{}, p)
	wantSteps(t, "idle", steps, "ask stopped")
	s.Want = WantStopped
	steps, _ = Plan(due, s, isUp, p)
	wantSteps(t, "asked", steps, "mark stop, stop, mark halted")

	s.Want, s.Failure.Final = WantRunning, false
	if _, due := Plan(t0, s, Observation{}, p); due.After(t0.Add(2 * time.Second)) {
		t.Errorf("the timer keeps the retry away until %s", due)
	}
	s.Failure.Code, s.Failure.Final = api.CodeDriverRefused, true
	if steps, due := Plan(t0.Add(time.Hour), s, Observation{}, p); len(steps) > 0 || !due.IsZero() {
		t.Errorf("refused: %q, due %s", words(steps), due)
	}
	s.Failure.Code, s.Instance = api.CodeCreateFailed, ""
	if steps, due := Plan(t0.Add(time.Hour), s, Observation{}, p); len(steps) > 0 || !due.IsZero() {
		t.Errorf("nothing was made: %q, due %s", words(steps), due)
	}
}

// What lies ahead of a sandbox is told for every state, and what keeps it away.
func TestAheadTellsWhatWillHappen(t *testing.T) {
	testkit.Proves(t, "O6")
	in := func(state State, want Want) Sandbox {
		s := running()
		s.State, s.Want, s.DueAt = state, want, t0.Add(3*time.Second)
		return s
	}
	tombstone, gone := in(Terminating, WantGone), in(Terminated, WantGone)
	tombstone.DeletedAt, gone.DeletedAt = t0, t0
	over, retry, refused, empty := in(Failed, WantRunning), in(Failed, WantRunning), in(Failed, WantRunning), in(Failed, WantRunning)
	over.Failure = &Failure{Code: api.CodeUnhealthy, At: t0, Want: WantRunning, Attempts: 1, Final: true}
	retry.Failure = &Failure{Code: api.CodeUnhealthy, At: t0, Want: WantRunning, Attempts: 1}
	refused.Failure = &Failure{Code: api.CodeDriverRefused, At: t0, Want: WantRunning, Attempts: 1, Final: true}
	empty.Instance, empty.Failure = "", &Failure{Code: api.CodeCreateFailed, At: t0, Want: WantRunning, Attempts: 9}
	held := in(Running, WantRunning)
	held.HeldUntil = t0.Add(30 * time.Minute)
	for _, c := range []struct {
		name string
		s    Sandbox
		want string
	}{
		{"pending", in(Pending, WantRunning), "work 3s"},
		{"pending, not wanted", in(Pending, WantStopped), ""},
		{"creating", in(Creating, WantRunning), "work 3s"},
		{"running", in(Running, WantRunning), "probe 1m0s, stop 2m0s, stop 5m0s, archive 1h0m0s, delete 48h0m0s"},
		{"running, held", held, "probe 1m0s, stop 30m0s, stop 30m0s, archive 1h0m0s, delete 48h0m0s"},
		{"unhealthy", sick(), "work 0s"},
		{"stopping", in(Stopping, WantStopped), "work 3s"},
		{"stopped", in(Stopped, WantStopped), "archive 1h0m0s, delete 48h0m0s"},
		{"stopped, wanted", in(Stopped, WantRunning), "work 3s"},
		{"starting", in(Starting, WantRunning), "work 3s"},
		{"archived", in(Archived, WantArchived), "delete 48h0m0s"},
		{"terminating", in(Terminating, WantGone), "work 3s"},
		{"terminated", in(Terminated, WantGone), ""},
		{"being deleted", tombstone, "work 3s"},
		{"deleted", gone, ""},
		{"in error", over, "stop 2m0s, stop 5m0s, archive 1h0m0s, delete 48h0m0s, retry"},
		{"in error, tried again", retry, "retry 1s, stop 2m0s, stop 5m0s, archive 1h0m0s, delete 48h0m0s"},
		{"refused", refused, "retry"},
		{"nothing made", empty, "retry"},
	} {
		p := rules
		p.Timers = everything
		got := told(Ahead(t0, c.s, p))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	p := rules
	p.Timers, p.NoSave, p.ProbeEvery = everything, true, 0
	ahead := Ahead(t0, in(Running, WantRunning), p)
	if got := told(ahead); got != "stop 2m0s, stop 5m0s, delete off, archive off" {
		t.Errorf("without a saver: %q", got)
	}
	for _, a := range ahead[2:] {
		if !strings.Contains(a.Off, "lose the files") {
			t.Errorf("%s is off because %q", a.What, a.Off)
		}
	}
	p.NoStop = true
	if got := told(Ahead(t0, in(Running, WantRunning), p)); strings.Count(got, "off") != 4 {
		t.Errorf("without a saver, at a driver that cannot stop: %q", got)
	}
	late := Ahead(t0.Add(1000*time.Hour), in(Stopped, WantStopped), Policy{Timers: everything})
	if len(late) != 2 || !late[0].At.Equal(t0.Add(1000*time.Hour)) {
		t.Errorf("what is overdue comes at %v", late)
	}
}

// told is a list of prospects in words, without the jitter of a probe or a retry.
func told(ahead []Upcoming) string {
	var words []string
	for _, a := range ahead {
		word := a.What
		switch {
		case a.Off != "":
			word += " off"
		case a.At.IsZero():
		case a.What == "probe":
			word += " " + a.At.Sub(t0).Round(time.Minute).String()
		default:
			word += fmt.Sprint(" ", a.At.Sub(t0).Round(time.Second))
		}
		if a.Why == "" {
			word += " for no reason"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// What lies ahead is what Plan will do: every prospect with a time comes at that time.
func TestAheadNamesARefusingHook(t *testing.T) {
	testkit.Proves(t, "O6", "H2")
	s := running()
	s.State, s.Instance = Failed, ""
	s.Failure = &Failure{Code: api.CodeHookFailed, At: t0, Want: WantRunning, Attempts: 1, Final: true}
	if ahead := Ahead(t0, s, rules); len(ahead) != 1 || ahead[0].What != "retry" || !strings.Contains(ahead[0].Why, "hook refused") {
		t.Errorf("%+v", ahead)
	}
}

func TestAheadAgreesWithPlan(t *testing.T) {
	testkit.Proves(t, "O6")
	for _, state := range States {
		for _, want := range Wants {
			s := running()
			s.State, s.Want = state, want
			p := rules
			p.Timers = everything
			ahead := Ahead(t0, s, p)
			steps, due := Plan(t0, s, Observation{}, p)
			switch {
			case len(ahead) == 0 && (len(steps) > 0 || !due.IsZero()):
				t.Errorf("%s, wanted %s: nothing lies ahead, and the plan is %q, due %s", state, want, words(steps), due)
			case len(ahead) > 0 && ahead[0].What != "work" && !ahead[0].At.Equal(due):
				t.Errorf("%s, wanted %s: first comes %+v, the plan is due %s", state, want, ahead[0], due)
			}
		}
	}
}
