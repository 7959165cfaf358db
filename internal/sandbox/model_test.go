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

	unseen time.Time             // since when nobody could say anything about the instance
	used   map[InstanceID]bool   // became ready once: there may be somebody's work in it
	saved  map[InstanceID]bool   // and that work is saved
	doomed map[InstanceID]string // may be ended, and why
	done   []string              // finalizers since the end was committed
	person bool                  // the last wish was a person's, not a timer's
}

func newWorld(fatal func(string, ...any)) *world {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &world{
		s:   Sandbox{ID: "s", State: Pending, Want: WantRunning, CreatedAt: now, ActiveAt: now},
		now: now, live: map[InstanceID]Sight{}, seen: map[string]bool{}, fatal: fatal, rules: modelPolicy,
		used: map[InstanceID]bool{}, saved: map[InstanceID]bool{}, doomed: map[InstanceID]string{},
	}
}

// faults decides what goes wrong next.
type faults interface {
	crash() bool       // the holder dies before the next step
	fail(Op) bool      // the next call is refused
	lostReply() bool   // the driver does it and the answer is lost
	unreachable() bool // the driver cannot be asked
	ill() Illness      // what the health check finds
}

type calm struct{}

func (calm) crash() bool       { return false }
func (calm) fail(Op) bool      { return false }
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
	SaveAfter:  30 * time.Second,
	SaveEvery:  5 * time.Minute,

	UnreachableAfter: time.Minute,
}

// settle is one holder's work: plan, act, plan again, until there is nothing to do or something could
// not be done. To look is to ask the driver first, whatever the record says.
func (w *world) settle(f faults, look bool) {
	var o Observation
	if look {
		o = w.observe(f)
	}
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
			went := w.take(step, f, &o, &made)
			w.check()
			if went == failed {
				return
			}
			if went == replan {
				break
			}
		}
	}
	w.fatal("no end of steps: %+v", w.s)
}

// went is how a step went.
type went int

const (
	well went = iota
	replan
	failed
)

func (w *world) take(step Step, f faults, o *Observation, made *InstanceID) went {
	switch step.Op {
	case OpObserve:
		*o = w.observe(f)
		return replan
	case OpMark:
		w.mark(step, *made)
		return well
	case OpAsk:
		w.s.Want, w.person = step.Want, false
		return replan
	}
	if _, there := w.live[w.s.Instance]; step.Soft && (f.fail(step.Op) || !there) {
		attempts := 1
		if w.s.SaveFailure != nil {
			attempts += w.s.SaveFailure.Attempts
		}
		w.s.SaveFailure = &Failure{Message: "not saved", At: w.now, Attempts: attempts}
		return well
	}
	if f.fail(step.Op) {
		return w.broken(step, made)
	}
	if w.rules.NoStop && (step.Op == OpStart || step.Op == OpStop) {
		w.fatal("asked to %s at a driver that cannot", step.Op)
	}
	if _, ok := w.live[w.s.Instance]; !ok && (step.Op == OpStart || step.Op == OpStop) {
		*o = Observation{Sight: Missing, Detail: "not found"}
		return replan
	}
	w.effect(step, made)
	if f.lostReply() {
		return w.broken(step, made)
	}
	return well
}

func (w *world) effect(step Step, made *InstanceID) {
	switch step.Op {
	case OpCreate:
		for id, sight := range w.live {
			if sight == Unclear && w.rules.Unreachable == UnseenReplace {
				w.doomed[id] = "replaced unseen" // by the template's choice two may run
			}
		}
		w.next++
		*made = InstanceID(fmt.Sprint("i", w.next))
		w.live[*made] = Up
	case OpStart, OpStop:
		w.live[w.s.Instance] = map[Op]Sight{OpStart: Up, OpStop: Down}[step.Op]
	case OpSave:
		if _, there := w.live[w.s.Instance]; !there {
			w.fatal("asked to save what is not there: %+v", w.s)
		}
		w.saved[w.s.Instance] = true
		w.s.UnsavedSince, w.s.SaveFailure = time.Time{}, nil
	case OpDestroy:
		w.mayDestroy(step.Instance)
		delete(w.live, step.Instance)
	}
}

// mayDestroy fails unless nobody loses work by the end of the instance, or somebody asked for it.
func (w *world) mayDestroy(id InstanceID) {
	fenced := w.rules.Unreachable == UnseenFence && w.unseenLongEnough() && id == w.s.Instance
	if _, there := w.live[id]; there && w.used[id] && w.doomed[id] == "" && !fenced {
		w.fatal("ended %s, which had somebody's work in it, unasked: %+v", id, w.s)
	}
}

func (w *world) unseenLongEnough() bool {
	return !w.unseen.IsZero() && !w.now.Before(w.unseen.Add(w.rules.UnreachableAfter))
}

func (w *world) observe(f faults) Observation {
	o := Observation{Sight: Missing}
	replacing := w.rules.Unreachable == UnseenReplace && w.s.Want == WantRunning && w.s.State != Terminating
	for id, sight := range w.live {
		switch {
		case id == w.s.Instance:
			o.Sight = sight
		case sight == Unclear && replacing:
		default:
			o.Strays = append(o.Strays, id)
		}
	}
	if f.unreachable() {
		o = Observation{Sight: Unreachable}
	}
	if o.Sight == Unreachable || o.Sight == Unclear {
		if w.unseen.IsZero() {
			w.unseen = w.now
		}
		o.Since = w.unseen
		return o
	}
	w.unseen, w.s.ProbedAt = time.Time{}, w.now
	if o.Sight == Up {
		o.Ill = f.ill()
	}
	slices.Sort(o.Strays)
	return o
}

// broken is what the engine does about a step that failed: give up a start, remember anything else.
func (w *world) broken(step Step, made *InstanceID) went {
	attempts := 1
	if w.s.Failure != nil && !w.s.ActiveAt.After(w.s.Failure.At) {
		attempts += w.s.Failure.Attempts
	}
	failure := &Failure{Message: "refused", At: w.now, Want: w.s.Want, Attempts: attempts}
	switch step.Op {
	case OpDestroy, OpSave, OpStop, OpFinal:
		w.s.Failure = failure
		w.s.DueAt = w.now.Add(max(w.rules.RetryEvery, w.rules.Backoff.Delay(w.s.ID, attempts)))
		return failed
	}
	if w.s.Instance == "" && *made != "" {
		delete(w.live, *made)
	}
	w.mark(Step{Op: OpMark, Event: EventFail, Failure: failure}, w.s.Instance)
	_, w.s.DueAt = Plan(w.now, w.s, Observation{}, w.rules)
	return failed
}

var modelFinalizers = []string{FinalHook, FinalInstance, "previews"}

func (w *world) mark(step Step, made InstanceID) {
	to, err := Next(w.s.State, step.Event)
	if err != nil {
		w.fatal("Plan asked for an illegal transition: %v", err)
		return
	}
	w.seen[string(w.s.State)+" "+string(step.Event)] = true
	w.judge(step, made)
	failure := step.Failure
	if step.Event == EventBegin || step.Event == EventStart {
		failure = w.s.Failure
	}
	change := Change{Event: step.Event, Instance: made, Failure: failure, Recovered: step.Recovered, Final: step.Final}
	if step.Event == EventEnd {
		change.Finalizers = modelFinalizers
		if step.Final != "" {
			change.Finalizers = slices.Concat(modelFinalizers, []string{step.Final})
		}
	}
	w.s = w.s.Apply(change, to, w.now)
}

// judge says whether an event may be recorded, as things are.
func (w *world) judge(step Step, made InstanceID) {
	id := w.s.Instance
	_, there := w.live[id]
	switch step.Event {
	case EventReady:
		w.used[made], w.saved[made] = true, false
	case EventLost:
		if !there {
			return
		}
		if w.rules.Unreachable != UnseenReplace || !w.unseenLongEnough() {
			w.fatal("%s was called lost, and lives: %+v", id, w.s)
		}
		w.doomed[id] = "replaced unseen"
	case EventEnd:
		w.done = nil
		if why := w.mayEnd(id); there && why == "" {
			w.fatal("the end of %s was decided without a save, and nobody asked for it: %+v", id, w.s)
		} else {
			w.doomed[id] = why
		}
	case EventFinal:
		w.done = append(w.done, step.Final)
		if !slices.Equal(w.done, modelFinalizers[:len(w.done)]) {
			w.fatal("finalizers were done as %v", w.done)
		}
	case EventEnded, EventArchive:
		if !slices.Equal(w.done, modelFinalizers) {
			w.fatal("ended with %v done of %v", w.done, modelFinalizers)
		}
		if step.Event == EventArchive && w.doomed[id] != "saved" && w.doomed[id] != "unused" {
			w.fatal("archived without a save: %+v", w.s)
		}
	}
}

// mayEnd is why an instance may be ended, empty if it may not.
func (w *world) mayEnd(id InstanceID) string {
	asked := w.s.Want == WantGone && w.person
	overdue := w.s.Deleted() && !w.now.Before(w.s.DeletedAt.Add(w.rules.SaveFor))
	switch {
	case !w.used[id]:
		return "unused"
	case w.saved[id]:
		return "saved"
	case asked && (w.rules.NoSave || w.s.SkipSave || overdue):
		return "asked"
	}
	return ""
}

// check holds at every moment, in the middle of everything.
func (w *world) check() {
	wanted := 0
	for id := range w.live {
		if w.doomed[id] != "replaced unseen" {
			wanted++
		}
	}
	if wanted > 1 {
		w.fatal("two instances at once: %v in %+v", w.live, w.s)
	}
	if w.s.State == Terminated && w.s.Want == WantGone && wanted > 0 {
		w.fatal("gone, but %v is left", w.live)
	}
}

type drawn struct{ t *rapid.T }

func (d drawn) one(in int, what string) bool { return rapid.IntRange(1, in).Draw(d.t, what) == 1 }
func (d drawn) crash() bool                  { return d.one(12, "crash") }
func (d drawn) fail(Op) bool                 { return d.one(6, "fail") }
func (d drawn) lostReply() bool              { return d.one(8, "lost reply") }
func (d drawn) unreachable() bool            { return d.one(8, "unreachable") }
func (d drawn) ill() Illness {
	return rapid.SampledFrom([]Illness{Well, Well, IllInside, AgentIsIll}).Draw(d.t, "ill")
}

// happen is something that comes from outside: a wish, a use, time, or the driver's own doing.
func (w *world) happen(t *rapid.T) {
	switch rapid.SampledFrom([]string{"want", "use", "wait", "long wait", "vanish", "turn", "hold", "delete"}).Draw(t, "happening") {
	case "want":
		w.wish(rapid.SampledFrom(Wants).Draw(t, "want"), rapid.Bool().Draw(t, "skip save"))
	case "use":
		w.s.ActiveAt = w.now
		w.change()
		w.wish(WantRunning, false)
	case "wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
	case "long wait":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
	case "vanish":
		clear(w.live)
	case "turn":
		to := rapid.SampledFrom([]Sight{Up, Down, Broken, Unclear}).Draw(t, "sight")
		for id := range w.live {
			w.live[id] = to
		}
	case "hold":
		w.s.HeldUntil = w.now.Add(time.Hour)
	case "delete":
		if rapid.IntRange(1, 6).Draw(t, "really") == 1 {
			w.delete(rapid.Bool().Draw(t, "skip save"))
		}
	}
}

// wish is what somebody asks of a sandbox that is not deleted. Work may have been done in it until now.
func (w *world) wish(want Want, skipSave bool) {
	if !w.s.Deleted() {
		clear(w.saved)
		w.s.Want, w.s.SkipSave, w.person = want, skipSave && want == WantGone, true
	}
}

// change is work in the workspace, if it has an instance and is one that is saved.
func (w *world) change() {
	if w.s.Instance == "" || w.s.Deleted() || w.rules.NoSave {
		return
	}
	if w.s.ChangedAt = w.now; w.s.UnsavedSince.IsZero() {
		w.s.UnsavedSince = w.now
	}
}

func (w *world) delete(skipSave bool) {
	if !w.s.Deleted() {
		w.wish(WantGone, skipSave)
		w.s.DeletedAt = w.now
	}
}

// history plays a random one under random rules.
func (w *world) history(t *rapid.T) {
	w.rules.NoStop = rapid.Bool().Draw(t, "driver cannot stop")
	w.rules.NoSave = rapid.Bool().Draw(t, "nobody can save")
	w.rules.NoRecover = rapid.IntRange(1, 5).Draw(t, "no recovery") == 1
	w.rules.Unreachable = rapid.SampledFrom([]Unseen{UnseenWait, UnseenReplace, UnseenFence}).Draw(t, "unreachable")
	for range rapid.IntRange(1, 25).Draw(t, "happenings") {
		w.happen(t)
		w.settle(drawn{t}, rapid.IntRange(1, 4).Draw(t, "look") == 1)
		w.check()
	}
}

// calmDown lets everything work again and time pass until nothing is left to do.
func (w *world) calmDown(f faults) {
	w.s.HeldUntil = time.Time{}
	w.now = w.now.Add(modelPolicy.ProbeEvery) // long enough for a probe to see what happened unseen
	w.s.ActiveAt = w.now
	for id, sight := range w.live {
		if sight == Unclear {
			w.live[id] = Up // such a phase passes
		}
	}
	for range 200 {
		w.settle(f, false)
		if w.s.Settled() || w.s.State == Failed && w.s.DueAt.IsZero() || w.impossible() {
			w.settle(f, true) // a sweep finds what was replaced unseen
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
// Want asks, with at most one instance on the way and nothing left after gone. No instance that somebody
// may have worked in is ended without a save unless somebody asked for that; none is called lost that
// lives, but by a template's choice.
func TestAnyHistorySettlesWhereWantAsks(t *testing.T) {
	testkit.Proves(t, "O4", "O6")
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Fatalf)
		w.seen = seen
		w.history(t)
		w.calmDown(calm{})
		if w.s.State == Failed {
			if !w.s.Failure.Final && !w.impossible() {
				t.Fatalf("settled in error although everything works: %+v", w.s)
			}
			w.delete(false)
			w.calmDown(calm{})
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

// noSaves lets everything work but the last save.
type noSaves struct{ calm }

func (noSaves) fail(op Op) bool { return op == OpSave }

// Wherever a history left it, a deleted sandbox is gone in the end, also when its workspace can never be
// saved.
func TestDeleteSettlesAfterAnyHistory(t *testing.T) {
	testkit.Proves(t, "O1", "O6")
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Fatalf)
		w.history(t)
		w.delete(rapid.Bool().Draw(t, "skip save"))
		calmed := w.now
		w.calmDown(noSaves{})
		if w.s.State != Terminated || len(w.live) > 0 {
			t.Fatalf("deleted, and it is %s with %v at the driver", w.s.State, w.live)
		}
		if waited := w.now.Sub(calmed); waited > 2*modelPolicy.SaveFor {
			t.Fatalf("it took %s", waited)
		}
	})
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
			if state == Terminating {
				w.s.Finalizers = modelFinalizers
			}
			w.delete(false)
			w.settle(calm{}, false)
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
