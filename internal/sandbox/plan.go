package sandbox

import (
	"slices"
	"time"

	"github.com/berthdev/berth/api"
)

// Sight is what the driver said about the recorded instance.
type Sight string

// The sights. Missing is the driver's confirmed word; Unclear is an instance that the driver can say
// nothing of, or that is in a phase nobody can act on but to end it; Unreachable is a driver that cannot
// be asked, from which nothing follows.
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
	Ill    Illness      // of an instance that is up
	Since  time.Time    // when it was first not seen, of Unreachable and Unclear
	Detail string       // the driver's words, for people
}

// Illness is what a health check found wrong with an instance that is up.
type Illness string

// The illnesses.
const (
	Well       Illness = ""
	IllInside  Illness = "inside" // nothing in the instance answers
	AgentIsIll Illness = "agent"  // all but the agent's server does
)

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
	OpHeal    Op = "heal"    // bring the agent's server in the running instance up again
	OpFinal   Op = "final"   // do what the finalizer Final stands for
	OpAsk     Op = "ask"     // a timer's wish: change Want, then plan again
)

// Step is one operation with what it needs.
type Step struct {
	Op        Op
	Event     Event      // of OpMark
	Instance  InstanceID // of OpDestroy
	Want      Want       // of OpAsk
	Reason    string
	Final     string      // of OpFinal, and of OpMark with EventFinal; of EventEnd, one more finalizer
	Failure   *Failure    // of OpMark with EventFail or EventSick
	Recovered *Recoveries // of OpMark: the count from now on; nil keeps it
	Soft      bool        // of OpSave: its failure is recorded, and the next step is taken all the same
}

// Plan decides what to do next about one sandbox. The steps are taken in order, each only if the one
// before it succeeded; then the engine plans again on what is true by then. With no steps, due is
// when to look again, zero if only when asked.
func Plan(now time.Time, s Sandbox, o Observation, p Policy) (steps []Step, due time.Time) {
	ending := s.Want == WantGone || s.State == Terminating
	if o.Sight == Unreachable || o.Sight == Unclear && !ending {
		return planUnseen(now, s, o, p)
	}
	if len(o.Strays) > 0 {
		return destroyAll(o.Strays, "left by an unfinished create"), time.Time{}
	}
	if wait, ok := held(now, s, p); ok {
		steps, due = planTimers(now, s, p)
		return steps, earliest(wait, due)
	}
	switch {
	case ending:
		steps = planEnd(now, s, o, p)
	case s.Want != WantRunning && p.NoStop && p.NoSave:
		if steps = planStopped(s, o, p); slices.ContainsFunc(steps, func(step Step) bool { return step.Op == OpStop }) {
			steps = nil // nothing can be done about this wish that would keep the files
		}
	case (s.Want == WantArchived || s.Want == WantStopped && p.NoStop) && !p.NoSave:
		steps = planArchived(s, o, p)
	case s.Want != WantRunning:
		steps = planStopped(s, o, p)
	default:
		steps, due = planRunning(now, s, o, p)
	}
	if len(steps) > 0 || !due.IsZero() {
		return steps, due
	}
	if steps, due = planTimers(now, s, p); len(steps) > 0 {
		return steps, due
	}
	steps, save := planSave(now, s, o, p)
	return steps, earliest(due, save)
}

// held reports whether a failed sandbox, or a stopped one whose start was refused, must wait before it is tried
// again, and until when. A new
// use or a new wish never waits; an end never waits.
func held(now time.Time, s Sandbox, p Policy) (until time.Time, wait bool) {
	f := s.Failure
	if f == nil || s.State != Failed && (s.State != Stopped || !f.Final) || s.Want == WantGone || s.Want != f.Want || s.ActiveAt.After(f.At) {
		return time.Time{}, false
	}
	if f.Final || f.Attempts >= p.Backoff.Attempts {
		return time.Time{}, true
	}
	until = f.At.Add(p.Backoff.Delay(s.ID, f.Attempts))
	return until, now.Before(until)
}

func planRunning(now time.Time, s Sandbox, o Observation, p Policy) (steps []Step, due time.Time) {
	switch s.State {
	case Pending:
		return rebirth("first use"), due
	case Stopped:
		return again(now, s, o, p, "used again"), due
	case Running, Unhealthy:
		return planHealth(now, s, o, p)
	}
	if o.Sight == Unasked {
		return observe("find out what is there"), due
	}
	switch s.State {
	case Stopping:
		return finishStop(o), due
	case Terminated, Archived:
		return rebirth("used again"), due
	}
	// Creating, Starting and Failed: something was under way and did not finish.
	switch {
	case s.Instance == "":
		return rebirth("a start did not finish"), due
	case o.Sight == Missing:
		return mark(EventLost, goneReason(o)), due
	case o.Sight == Broken:
		return broken(now, s, o), due
	case o.Ill != Well:
		return restart(now, s, o, p, "the instance runs, and "+ailing(o)), due
	}
	return again(now, s, o, p, "a start did not finish"), due
}

func planStopped(s Sandbox, o Observation, p Policy) []Step {
	hadOne := s.State == Running || s.State == Unhealthy || s.State == Stopped
	switch {
	case hadOne && o.Sight == Missing:
		return mark(EventLost, goneReason(o))
	case s.State == Stopped && o.Sight == Up:
		return []Step{{Op: OpStop, Reason: "asked to stop, and found running"}}
	case hadOne && s.State != Stopped:
		return stop(s, p, "asked to stop")
	case hadOne || s.Want.Satisfied(s.State):
		return nil
	case o.Sight == Unasked:
		return observe("find out what is there")
	case s.Instance == "":
		return mark(EventLost, "nothing was started")
	case s.State == Stopping:
		return finishStop(o)
	case o.Sight == Missing:
		return mark(EventLost, goneReason(o))
	case o.Sight == Up:
		return stop(s, p, "asked to stop")
	}
	return mark(EventHalted, "found stopped")
}

func finishStop(o Observation) []Step {
	switch o.Sight {
	case Missing:
		return mark(EventLost, goneReason(o))
	case Up:
		return []Step{{Op: OpStop, Reason: "a stop did not finish"}, {Op: OpMark, Event: EventHalted, Reason: "stopped"}}
	}
	return mark(EventHalted, "found stopped")
}

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
// new one takes its place. Where it cannot be saved either, that is for a person to decide. What runs
// need not be started.
func again(now time.Time, s Sandbox, o Observation, p Policy, reason string) []Step {
	begin := Step{Op: OpMark, Event: EventStart, Reason: reason}
	start := []Step{{Op: OpStart, Reason: reason}}
	switch {
	case p.NoStop && o.Sight == Up && o.Ill != IllInside:
		start = nil
	case p.NoStop && p.NoSave:
		return giveUp(now, s, api.CodeUnsupported, reason+"; its driver cannot start it again, and its files cannot be saved here: terminate it to begin anew without them")
	case p.NoStop:
		return end(s, o, p, reason)
	}
	return slices.Concat([]Step{begin}, start, []Step{
		{Op: OpRestore, Reason: reason},
		{Op: OpMark, Event: EventReady, Reason: "started"},
	})
}

// restart ends what runs in the instance and starts it again.
func restart(now time.Time, s Sandbox, o Observation, p Policy, reason string) []Step {
	steps := again(now, s, o, p, reason)
	if p.NoStop {
		return steps
	}
	return append([]Step{{Op: OpStop, Reason: reason}}, steps...)
}

// stop saves changes first where that can be done. What could not be saved is kept: a stopped instance has
// its files, and the save is tried again.
func stop(s Sandbox, p Policy, reason string) (steps []Step) {
	if !saveDue(s, p).IsZero() {
		steps = []Step{{Op: OpSave, Reason: "saved before it is stopped", Soft: true}}
	}
	return append(steps,
		Step{Op: OpMark, Event: EventStop, Reason: reason},
		Step{Op: OpStop, Reason: reason},
		Step{Op: OpMark, Event: EventHalted, Reason: "stopped"})
}

func destroyAll(ids []InstanceID, reason string) []Step {
	steps := make([]Step, len(ids), len(ids)+1)
	for i, id := range ids {
		steps[i] = Step{Op: OpDestroy, Instance: id, Reason: reason}
	}
	return append(steps, observe("see that they are gone")...)
}

// giveUp leaves the sandbox in error until its next use.
func giveUp(now time.Time, s Sandbox, code api.Code, reason string) []Step {
	f := &Failure{Code: code, Message: reason, At: now, Want: s.Want, Attempts: 1, Final: true}
	return []Step{{Op: OpMark, Event: EventFail, Reason: reason, Failure: f}}
}

func mark(ev Event, reason string) []Step { return []Step{{Op: OpMark, Event: ev, Reason: reason}} }
func observe(reason string) []Step        { return []Step{{Op: OpObserve, Reason: reason}} }
