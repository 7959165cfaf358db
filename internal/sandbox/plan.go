package sandbox

import (
	"slices"
	"time"

	"github.com/berthdev/berth/api"
)

// Sight is the driver's report about the recorded instance.
type Sight string

// The sights.
const (
	Unasked     Sight = ""            // the driver was not asked
	Missing     Sight = "missing"     // the driver confirmed that the instance does not exist
	Up          Sight = "up"          // the instance runs or is frozen
	Down        Sight = "down"        // the instance is stopped
	Broken      Sight = "broken"      // the instance exists and can never run again
	Unclear     Sight = "unclear"     // the driver answered, but the state of the instance is unknown
	Unreachable Sight = "unreachable" // the driver did not answer: the instance may be in any state
)

// Observation is the state at the driver, observed under the lease that plans with it.
type Observation struct {
	Sight  Sight        // state of the recorded instance; Missing if none is recorded
	Strays []InstanceID // other instances of this sandbox, which lease holders left when they failed
	Ill    Illness      // health of an instance that is up
	Since  time.Time    // for Unreachable and Unclear: time since which the state is unknown
	Detail string       // message of the driver
}

// Illness is the result of a health check of an instance that is up.
type Illness string

// The illnesses.
const (
	Well       Illness = ""
	IllInside  Illness = "inside" // the helper in the instance does not answer
	AgentIsIll Illness = "agent"  // the agent's server does not answer, the helper does
)

// Op is an operation of the engine.
type Op string

// The operations in a plan.
const (
	OpObserve Op = "observe" // ask the driver, then plan again
	OpMark    Op = "mark"    // write an event, fenced by the lease
	OpCreate  Op = "create"  // create the instance of the new incarnation
	OpStart   Op = "start"   // start the recorded instance
	OpRestore Op = "restore" // restore the workspace and start the agent: the cold start
	OpStop    Op = "stop"    // stop the recorded instance
	OpSave    Op = "save"    // save a last version of the workspace
	OpDestroy Op = "destroy" // destroy Instance and its volume
	OpHeal    Op = "heal"    // restart the agent's server in the running instance
	OpFinal   Op = "final"   // run the finalizer Final
	OpAsk     Op = "ask"     // change Want on behalf of a timer, then plan again
)

// Step is one operation with its arguments.
type Step struct {
	Op        Op
	Event     Event      // for OpMark
	Instance  InstanceID // for OpDestroy
	Want      Want       // for OpAsk: the new desired state
	Reason    string
	Final     string      // for OpFinal and EventFinal: the finalizer; for EventEnd: an additional finalizer, or empty
	Failure   *Failure    // for OpMark with EventFail or EventSick
	Recovered *Recoveries // for OpMark: new count of recoveries; nil keeps the count
	Soft      bool        // for OpSave: a failure is recorded, and the next step still runs
}

// Plan returns the next steps for one sandbox. The engine runs them in order, each only if the previous step
// succeeded, and then plans again. If there are no steps, due is the time of the next check, or zero if the sandbox is
// checked only on request.
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
			steps = nil // a stop would lose the files
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

// held reports whether a failed sandbox, or a stopped sandbox whose start was refused, must wait before the next
// attempt, and until when. A zero until means until the next use. A new use, a new Want and an end never wait.
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

// planRunning plans for a sandbox that should run.
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
		return observe("inspect the driver"), due
	}
	switch s.State {
	case Stopping:
		return finishStop(o), due
	case Terminated, Archived:
		return rebirth("used again"), due
	}
	// Creating, Starting and Failed: an operation was under way and did not finish.
	switch {
	case s.Instance == "":
		return rebirth("a start did not finish"), due
	case o.Sight == Missing:
		return mark(EventLost, goneReason(o)), due
	case o.Sight == Broken:
		return broken(now, s, o), due
	case o.Ill != Well:
		return restart(now, s, o, p, "the instance runs, and "+healthProblem(o)), due
	}
	return again(now, s, o, p, "a start did not finish"), due
}

// planStopped plans for a sandbox that should be stopped or archived. It does not archive; see planArchived.
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
		return observe("inspect the driver")
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

// finishStop finishes a stop that was interrupted.
func finishStop(o Observation) []Step {
	switch o.Sight {
	case Missing:
		return mark(EventLost, goneReason(o))
	case Up:
		return []Step{{Op: OpStop, Reason: "a stop did not finish"}, {Op: OpMark, Event: EventHalted, Reason: "stopped"}}
	}
	return mark(EventHalted, "found stopped")
}

// rebirth creates an instance under a new incarnation. The instance is recorded only when it is ready: an instance
// that is not recorded comes from a create that did not finish.
func rebirth(reason string) []Step {
	return []Step{
		{Op: OpMark, Event: EventBegin, Reason: reason},
		{Op: OpCreate, Reason: reason},
		{Op: OpRestore, Reason: reason},
		{Op: OpMark, Event: EventReady, Reason: "created"},
	}
}

// again starts the recorded instance. At a driver that cannot stop and start instances, it keeps an instance that
// runs and whose helper answers. It saves and ends any other instance, and a new instance replaces it. If workspaces
// cannot be saved, it gives up instead, so that no files are lost.
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

// restart stops the instance and starts it again.
func restart(now time.Time, s Sandbox, o Observation, p Policy, reason string) []Step {
	steps := again(now, s, o, p, reason)
	if p.NoStop {
		return steps
	}
	return append([]Step{{Op: OpStop, Reason: reason}}, steps...)
}

// stop saves changes if possible, then stops the instance. If the save fails, the files stay in the stopped instance
// and the save is repeated.
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
