package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
	"pgregory.net/rapid"
)

// world is a driver and a store of one sandbox, played through in a single thread. It takes Plan's
// steps as the engine does, and breaks off between any two of them as a crash would.
type world struct {
	s     Sandbox
	now   time.Time
	live  map[InstanceID]Sight // what the driver has
	next  int
	seen  map[string]bool // "state event" pairs that were run
	rules Policy
	fatal func(format string, args ...any)
}

func newWorld(fatal func(string, ...any)) *world {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &world{
		s:   Sandbox{ID: "s", State: Pending, Want: WantRunning, CreatedAt: now, ActiveAt: now},
		now: now, live: map[InstanceID]Sight{}, seen: map[string]bool{}, fatal: fatal, rules: modelPolicy,
	}
}

// faults decides what goes wrong next; nil goes right.
type faults interface {
	crash() bool       // the holder dies before the next step
	fail() bool        // the driver refuses the next call
	lostReply() bool   // the driver does it and the answer is lost
	unreachable() bool // the driver cannot be asked
	ill() Illness      // what the health check finds
}

type calm struct{}

func (calm) crash() bool       { return false }
func (calm) fail() bool        { return false }
func (calm) lostReply() bool   { return false }
func (calm) unreachable() bool { return false }
func (calm) ill() Illness      { return Well }

var modelPolicy = Policy{
	Timers:     Timers{Stop: time.Hour, Archive: 5 * time.Hour, Delete: 20 * time.Hour, MaxAge: 9 * time.Hour},
	Backoff:    Backoff{Base: time.Second, Max: time.Minute, Attempts: 3},
	RetryEvery: time.Second,
	ProbeEvery: time.Minute,
	ProbeAgain: time.Second,
	Breaker:    Breaker{Attempts: 3, Window: time.Hour},
	SaveFor:    time.Hour,

	UnreachableAfter: time.Minute,
}

// settle is one holder's work: plan, act, plan again, until there is nothing to do.
func (w *world) settle(f faults) {
	var o Observation
	for range 40 {
		steps, due := Plan(w.now, w.s, o, w.rules)
		if len(steps) == 0 {
			w.s.DueAt = due
			return
		}
		o = Observation{}
		made := w.s.Instance
		for _, step := range steps {
			if f.crash() {
				return
			}
			if !w.take(step, f, &o, &made) {
				break
			}
			w.check()
		}
		if o.Sight == Unreachable {
			return
		}
	}
	w.fatal("no end of steps: %+v", w.s)
}

// take does one step and reports whether the next may follow.
func (w *world) take(step Step, f faults, o *Observation, made *InstanceID) bool {
	switch step.Op {
	case OpObserve:
		*o = w.observe(f)
		return false
	case OpMark:
		return w.mark(step, *made)
	case OpAsk:
		w.s.Want = step.Want
		return false
	case OpSave, OpRestore, OpHeal, OpFinal:
		if f.fail() {
			return w.giveUp(step, made)
		}
		return true
	}
	if f.fail() {
		return w.giveUp(step, made)
	}
	if w.rules.NoStop && (step.Op == OpStart || step.Op == OpStop) {
		w.fatal("asked to %s at a driver that cannot", step.Op)
	}
	if _, ok := w.live[w.s.Instance]; !ok && (step.Op == OpStart || step.Op == OpStop) {
		*o = Observation{Sight: Missing, Detail: "not found"}
		return false
	}
	w.effect(step, made)
	if f.lostReply() {
		return w.giveUp(step, made)
	}
	return true
}

func (w *world) effect(step Step, made *InstanceID) {
	switch step.Op {
	case OpCreate:
		w.next++
		*made = InstanceID(fmt.Sprint("i", w.next))
		w.live[*made] = Up
	case OpStart, OpStop:
		w.live[w.s.Instance] = map[Op]Sight{OpStart: Up, OpStop: Down}[step.Op]
	case OpDestroy:
		delete(w.live, step.Instance)
	}
}

func (w *world) observe(f faults) Observation {
	if f.unreachable() {
		return Observation{Sight: Unreachable}
	}
	o := Observation{Sight: Missing}
	w.s.ProbedAt = w.now
	for id, sight := range w.live {
		if id == w.s.Instance {
			o.Sight = sight
			if sight == Up {
				o.Ill = f.ill()
			}
		} else {
			o.Strays = append(o.Strays, id)
		}
	}
	slices.Sort(o.Strays)
	return o
}

// giveUp is what the engine does about a step that failed.
func (w *world) giveUp(step Step, made *InstanceID) bool {
	if step.Op == OpDestroy || step.Op == OpSave || step.Op == OpStop || step.Op == OpFinal {
		return false
	}
	if w.s.Instance == "" && *made != "" {
		delete(w.live, *made)
	}
	attempts := 1
	if w.s.Failure != nil && !w.s.ActiveAt.After(w.s.Failure.At) {
		attempts += w.s.Failure.Attempts
	}
	fail := Step{Op: OpMark, Event: EventFail, Failure: &Failure{At: w.now, Want: w.s.Want, Attempts: attempts}}
	w.mark(fail, w.s.Instance)
	return false
}

func (w *world) mark(step Step, made InstanceID) bool {
	to, err := Next(w.s.State, step.Event)
	if err != nil {
		w.fatal("Plan asked for an illegal transition: %v", err)
		return false
	}
	w.seen[string(w.s.State)+" "+string(step.Event)] = true
	failure := step.Failure
	if step.Event == EventBegin || step.Event == EventStart {
		failure = w.s.Failure
	}
	change := Change{Event: step.Event, Instance: made, Failure: failure, Recovered: step.Recovered, Final: step.Final}
	if step.Event == EventEnd {
		change.Finalizers = []string{FinalHook, FinalInstance, "previews"}
	}
	w.s = w.s.Apply(change, to, w.now)
	return true
}

// check holds at every moment, in the middle of everything.
func (w *world) check() {
	if len(w.live) > 1 {
		w.fatal("two instances at once: %v in %+v", w.live, w.s)
	}
	if w.s.State == Terminated && w.s.Want == WantGone && len(w.live) > 0 {
		w.fatal("gone, but %v is left", w.live)
	}
}

type drawn struct{ t *rapid.T }

func (d drawn) one(in int, what string) bool { return rapid.IntRange(1, in).Draw(d.t, what) == 1 }
func (d drawn) crash() bool                  { return d.one(12, "crash") }
func (d drawn) fail() bool                   { return d.one(6, "fail") }
func (d drawn) lostReply() bool              { return d.one(8, "lost reply") }
func (d drawn) unreachable() bool            { return d.one(8, "unreachable") }
func (d drawn) ill() Illness {
	return rapid.SampledFrom([]Illness{Well, Well, IllInside, AgentIsIll}).Draw(d.t, "ill")
}

// happen is something that comes from outside: a wish, a use, time, or the driver's own doing.
func (w *world) happen(t *rapid.T) {
	switch rapid.SampledFrom([]string{"want", "use", "wait", "long wait", "vanish", "halt", "break", "hold", "delete"}).Draw(t, "happening") {
	case "want":
		if !w.s.Deleted() {
			w.s.Want = rapid.SampledFrom(Wants).Draw(t, "want")
		}
	case "use":
		w.s.ActiveAt = w.now
		if !w.s.Deleted() {
			w.s.Want = WantRunning
		}
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
	case "long wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
	case "vanish":
		clear(w.live)
	case "halt", "break":
		to := rapid.SampledFrom([]Sight{Down, Broken, Unclear}).Draw(t, "sight")
		for id := range w.live {
			w.live[id] = to
		}
	case "hold":
		w.s.HeldUntil = w.now.Add(time.Hour)
	case "delete":
		if rapid.IntRange(1, 6).Draw(t, "really") == 1 && !w.s.Deleted() {
			w.s.Want, w.s.DeletedAt = WantGone, w.now
		}
	}
}

// calmDown lets everything work again and time pass until nothing is left to do.
func (w *world) calmDown() {
	w.s.HeldUntil = time.Time{}
	w.now = w.now.Add(modelPolicy.ProbeEvery) // long enough for a probe to see what happened unseen
	w.s.ActiveAt = w.now
	for id, sight := range w.live {
		if sight == Unclear {
			w.live[id] = Up // such a phase passes
		}
	}
	for range 200 {
		w.settle(calm{})
		if w.s.Settled() || w.s.State == Failed && w.s.DueAt.IsZero() || w.impossible() {
			return
		}
		if w.s.DueAt.After(w.now) {
			w.now = w.s.DueAt
		}
	}
	w.fatal("never settled: %+v with %v at the driver", w.s, w.live)
}

// impossible reports whether what is wanted could only be done by losing the files.
func (w *world) impossible() bool {
	return w.rules.NoSave && w.s.Want != WantGone && w.s.Want != WantRunning && (w.s.State == Stopped || w.rules.NoStop)
}

// From any history of observations, failures, crashes and wishes, the sandbox comes to rest where
// Want asks, with at most one instance on the way and nothing left after gone.
func TestAnyHistorySettlesWhereWantAsks(t *testing.T) {
	testkit.Proves(t, "O6")
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Fatalf)
		w.seen = seen
		w.rules.NoStop = rapid.Bool().Draw(t, "driver cannot stop")
		w.rules.NoSave = rapid.Bool().Draw(t, "nobody can save")
		w.rules.NoRecover = rapid.IntRange(1, 5).Draw(t, "no recovery") == 1
		w.rules.Unreachable = rapid.SampledFrom([]Unseen{UnseenWait, UnseenFence}).Draw(t, "unreachable")
		for range rapid.IntRange(1, 25).Draw(t, "happenings") {
			w.happen(t)
			w.settle(drawn{t})
			w.check()
		}
		w.calmDown()
		if w.s.State == Failed {
			if !w.s.Failure.Final {
				t.Fatalf("settled in error although everything works: %+v", w.s)
			}
			w.s.Want, w.s.DeletedAt = WantGone, w.now
			w.calmDown()
		}
		if w.s.Want == WantGone && len(w.live) > 0 {
			t.Fatalf("gone, but %v is left", w.live)
		}
		if w.s.State == Running && w.live[w.s.Instance] != Up && !w.impossible() {
			t.Fatalf("recorded as running, the driver has %v", w.live)
		}
	})
	for from, row := range matrix {
		for ev := range row {
			if !seen[string(from)+" "+string(ev)] {
				t.Errorf("the matrix allows %s in %s, and no history ran it", ev, from)
			}
		}
	}
}

// Delete is legal from every state, and leaves nothing.
func TestDeleteFromEveryState(t *testing.T) {
	testkit.Proves(t, "O6")
	for _, state := range States {
		for _, sight := range []Sight{Missing, Up, Down, Broken, Unclear} {
			w := newWorld(t.Fatalf)
			w.s.State, w.s.Incarnation = state, 3
			if sight != Missing {
				w.s.Instance, w.live["i0"] = "i0", sight
			}
			if state == Terminated && sight != Missing {
				continue // terminated means that nothing is left
			}
			w.s.Want, w.s.DeletedAt = WantGone, w.now
			w.settle(calm{})
			if w.s.State != Terminated || len(w.live) > 0 {
				t.Errorf("delete from %s with the instance %s: state %s, left %v", state, sight, w.s.State, w.live)
			}
		}
	}
}

// Stopped, lost and unreachable are three different things.
func TestStoppedLostAndUnreachableDiffer(t *testing.T) {
	testkit.Proves(t, "O4")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Sandbox{ID: "s", State: Running, Want: WantRunning, Instance: "i", Incarnation: 1, ActiveAt: now, ProbedAt: now}
	for sight, want := range map[Sight]string{
		Down:        "mark halted",
		Missing:     "mark lost",
		Unreachable: "",
		Unclear:     "",
		Broken:      "mark fail",
		Up:          "",
	} {
		steps, due := Plan(now, s, Observation{Sight: sight}, DefaultPolicy(OwnerProject))
		var got []string
		for _, step := range steps {
			got = append(got, strings.TrimSpace(string(step.Op)+" "+string(step.Event)))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %v, want %q", sight, got, want)
		}
		if len(steps) == 0 && !due.After(now) && sight == Unreachable {
			t.Errorf("%s: not looked at again", sight)
		}
	}
}
