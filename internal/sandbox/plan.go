package sandbox

import (
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
)

// Sight is what the driver said about the recorded instance.
type Sight string

// The sights. Missing is the driver's confirmed word; Unclear is an instance that exists in a phase
// nobody can act on but to end it; Unreachable is anything from which nothing follows.
const (
	Unasked     Sight = ""
	Missing     Sight = "missing"
	Up          Sight = "up"
	Down        Sight = "down"
	Broken      Sight = "broken" // exists and will never run again
	Unclear     Sight = "unclear"
	Unreachable Sight = "unreachable"
)

// Observation is what was seen at the driver under the lease that plans on it.
type Observation struct {
	Sight  Sight        // of the recorded instance; Missing when none is recorded
	Strays []InstanceID // every other instance of this sandbox: a dead holder's leavings
	Sick   bool         // the instance is up and its health check failed
	Detail string       // the driver's words, for people
}

// Op is one thing the engine can do.
type Op string

// The operations a plan is made of.
const (
	OpObserve Op = "observe" // ask the driver, then plan again
	OpMark    Op = "mark"    // write an event, fenced
	OpCreate  Op = "create"  // make the instance of the incarnation just begun
	OpStart   Op = "start"   // start the recorded instance
	OpRestore Op = "restore" // bring the workspace and the agent up: the cold start
	OpStop    Op = "stop"    // stop the recorded instance
	OpSave    Op = "save"    // save a last version of the workspace
	OpDestroy Op = "destroy" // end Instance and its volume
	OpAsk     Op = "ask"     // a timer's wish: change Want, then plan again
)

// Step is one operation with what it needs.
type Step struct {
	Op       Op
	Event    Event      // of OpMark
	Instance InstanceID // of OpDestroy
	Want     Want       // of OpAsk
	Reason   string
	Failure  *Failure // of OpMark with EventFail
}

// Plan decides what to do next about one sandbox. The steps are taken in order, each only if the one
// before it succeeded; then the engine plans again on what is true by then. With no steps, due is
// when to look again, zero if only when asked.
func Plan(now time.Time, s Sandbox, o Observation, p Policy) (steps []Step, due time.Time) {
	ending := s.Want == WantGone || s.State == Terminating
	if o.Sight == Unreachable || o.Sight == Unclear && !ending {
		return nil, now.Add(jitter(p.RetryEvery, s.ID))
	}
	if endStrays && len(o.Strays) > 0 {
		return destroyAll(o.Strays, "left by an unfinished create"), time.Time{}
	}
	if wait, ok := held(now, s, p); ok {
		return nil, wait
	}
	switch {
	case ending:
		steps = planEnd(s, o, p)
	case s.Want == WantArchived || s.Want == WantStopped && p.NoStop:
		steps = planArchived(s, o, p)
	case s.Want == WantStopped:
		steps = planStopped(s, o)
	default:
		steps = planRunning(now, s, o, p)
	}
	if len(steps) > 0 {
		return steps, time.Time{}
	}
	return planTimers(now, s, p)
}

// held reports whether a failed sandbox must wait before it is tried again, and until when. A new
// use or a new wish never waits; an end never waits.
func held(now time.Time, s Sandbox, p Policy) (until time.Time, wait bool) {
	f := s.Failure
	if s.State != Failed || f == nil || s.Want == WantGone || s.Want != f.Want || s.ActiveAt.After(f.At) {
		return time.Time{}, false
	}
	if f.Final || f.Attempts >= p.Backoff.Attempts {
		return time.Time{}, true
	}
	until = f.At.Add(p.Backoff.Delay(s.ID, f.Attempts))
	return until, now.Before(until)
}

func planRunning(now time.Time, s Sandbox, o Observation, p Policy) []Step {
	switch s.State {
	case Pending:
		return rebirth("first use")
	case Stopped:
		return again(p, "used again")
	case Running, Unhealthy:
		return planHealth(now, s, o, p)
	}
	if o.Sight == Unasked {
		return observe("find out what is there")
	}
	switch s.State {
	case Stopping:
		if p.NoStop {
			return end("a stop did not finish")
		}
		return finishStop(o)
	case Terminated, Archived:
		return rebirth("used again")
	}
	// Creating, Starting and Failed: something was under way and did not finish.
	switch {
	case s.Instance == "":
		return rebirth("a start did not finish")
	case o.Sight == Missing:
		return lost(o)
	case o.Sight == Broken:
		return broken(now, s, o)
	}
	return again(p, "a start did not finish")
}

// planHealth is about a sandbox that has a running instance, as far as the record knows.
func planHealth(now time.Time, s Sandbox, o Observation, p Policy) []Step {
	switch o.Sight {
	case Missing:
		return lost(o)
	case Down:
		return mark(EventHalted, "found stopped")
	case Broken:
		return broken(now, s, o)
	case Unasked:
		if s.State == Unhealthy || p.ProbeEvery > 0 && !now.Before(s.ProbedAt.Add(p.ProbeEvery)) {
			return observe("health check")
		}
		return nil
	}
	switch {
	case s.State == Running && o.Sick:
		return mark(EventSick, "health check failed")
	case s.State == Unhealthy && o.Sick && !p.NoStop:
		return append([]Step{{Op: OpStop, Reason: "health check failed again"}}, again(p, "health check failed again")...)
	case s.State == Unhealthy && o.Sick:
		return again(p, "health check failed again")
	case s.State == Unhealthy:
		return mark(EventReady, "healthy again")
	}
	return nil
}

func planStopped(s Sandbox, o Observation) []Step {
	switch s.State {
	case Running, Unhealthy:
		return stop("asked to stop")
	}
	if s.Want.Satisfied(s.State) || s.State == Stopped {
		return nil
	}
	switch {
	case o.Sight == Unasked:
		return observe("find out what is there")
	case s.Instance == "":
		return mark(EventLost, "nothing was started")
	case s.State == Stopping:
		return finishStop(o)
	case o.Sight == Missing:
		return lost(o)
	case o.Sight == Up:
		return stop("asked to stop")
	}
	return mark(EventHalted, "found stopped")
}

func finishStop(o Observation) []Step {
	switch o.Sight {
	case Missing:
		return lost(o)
	case Up:
		return []Step{{Op: OpStop, Reason: "a stop did not finish"}, {Op: OpMark, Event: EventHalted, Reason: "stopped"}}
	}
	return mark(EventHalted, "found stopped")
}

// planArchived saves and ends what is stopped, or what runs at a driver that cannot stop it.
func planArchived(s Sandbox, o Observation, p Policy) []Step {
	switch {
	case s.State == Stopped, p.NoStop && (s.State == Running || s.State == Unhealthy):
		return end("saved before the volume goes")
	case p.NoStop && s.Instance != "" && o.Sight != Unasked && o.Sight != Missing:
		return end("saved before the volume goes")
	}
	return planStopped(s, o)
}

// end saves, then commits to the end. From there on nobody revives the instance, whoever holds the
// lease: its volume may be gone already.
func end(reason string) []Step {
	return []Step{{Op: OpSave, Reason: reason}, {Op: OpMark, Event: EventEnd, Reason: reason}}
}

func planEnd(s Sandbox, o Observation, p Policy) []Step {
	ended := Step{Op: OpMark, Event: EventEnded, Reason: "nothing left at the driver"}
	if s.Want == WantArchived || s.Want == WantStopped && p.NoStop {
		ended.Event = EventArchive
	}
	switch {
	case s.State == Terminated:
		return nil
	case s.State != Terminating && s.Instance == "":
		return mark(EventEnd, "asked to go")
	case s.State != Terminating:
		return end("asked to go")
	case o.Sight == Unasked:
		return observe("find what is left")
	case o.Sight == Missing:
		return []Step{ended}
	}
	return []Step{{Op: OpDestroy, Instance: s.Instance, Reason: ended.Reason}, ended}
}

// planTimers is what happens to a sandbox that is where it should be and nobody uses.
func planTimers(now time.Time, s Sandbox, p Policy) ([]Step, time.Time) {
	if s.Deleted() || s.State == Failed || s.State == Pending || s.State == Terminated {
		return nil, time.Time{}
	}
	var due time.Time
	for _, t := range timersOf(s, p) {
		at := t.at
		if t.yields && s.HeldUntil.After(at) {
			at = s.HeldUntil
		}
		if !at.After(now) {
			return t.steps, time.Time{}
		}
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return nil, due
}

type timer struct {
	at     time.Time
	yields bool // holds keep it away
	steps  []Step
}

// timersOf lists the timers that can fire in this state, the gravest first.
func timersOf(s Sandbox, p Policy) (ts []timer) {
	add := func(since time.Time, d time.Duration, want Want, why string) {
		if d > 0 && !s.Want.atLeast(want) {
			reason := fmt.Sprintf("%s for %s", why, d)
			ts = append(ts, timer{since.Add(d), true, []Step{{Op: OpAsk, Want: want, Reason: reason}}})
		}
	}
	add(s.ActiveAt, p.Timers.Delete, WantGone, "not used")
	add(s.ActiveAt, p.Timers.Archive, WantArchived, "not used")
	add(s.ActiveAt, p.Timers.Stop, WantStopped, "not used")
	add(s.StartedAt, p.Timers.MaxAge, WantStopped, "running")
	if s.State == Running && p.ProbeEvery > 0 {
		ts = append(ts, timer{s.ProbedAt.Add(p.ProbeEvery), false, observe("health check")})
	}
	return ts
}

// atLeast reports whether w already asks for as little as other or less.
func (w Want) atLeast(other Want) bool { return rank[w] >= rank[other] }

var rank = map[Want]int{WantRunning: 0, WantStopped: 1, WantArchived: 2, WantGone: 3}

// rebirth makes a new instance under a new incarnation. The instance is recorded only once it is
// ready, so that an instance nobody recorded is always somebody's unfinished create.
func rebirth(reason string) []Step {
	return []Step{
		{Op: OpMark, Event: EventBegin, Reason: reason},
		{Op: OpCreate, Reason: reason},
		{Op: OpRestore, Reason: reason},
		{Op: OpMark, Event: EventReady, Reason: "created"},
	}
}

// again runs the recorded instance once more, or at a driver that cannot, saves and ends it so that a
// new one takes its place.
func again(p Policy, reason string) []Step {
	if p.NoStop {
		return end(reason)
	}
	return []Step{
		{Op: OpMark, Event: EventStart, Reason: reason},
		{Op: OpStart, Reason: reason},
		{Op: OpRestore, Reason: reason},
		{Op: OpMark, Event: EventReady, Reason: "started"},
	}
}

func stop(reason string) []Step {
	return []Step{
		{Op: OpMark, Event: EventStop, Reason: reason},
		{Op: OpStop, Reason: reason},
		{Op: OpMark, Event: EventHalted, Reason: "stopped"},
	}
}

func destroyAll(ids []InstanceID, reason string) []Step {
	steps := make([]Step, len(ids), len(ids)+1)
	for i, id := range ids {
		steps[i] = Step{Op: OpDestroy, Instance: id, Reason: reason}
	}
	return append(steps, observe("see that they are gone")...)
}

// lost records that the driver confirmed the instance gone, before anything replaces it.
func lost(o Observation) []Step {
	reason := "the driver confirmed that the instance is gone"
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	return mark(EventLost, reason)
}

// broken keeps an instance that cannot run and asks a person: its files may be all there is.
func broken(now time.Time, s Sandbox, o Observation) []Step {
	f := &Failure{Code: api.CodeDriverRefused, Message: "the instance can never run again: " + o.Detail, At: now, Want: s.Want, Attempts: 1, Final: true}
	return []Step{{Op: OpMark, Event: EventFail, Reason: f.Message, Failure: f}}
}

func mark(ev Event, reason string) []Step { return []Step{{Op: OpMark, Event: ev, Reason: reason}} }
func observe(reason string) []Step        { return []Step{{Op: OpObserve, Reason: reason}} }
