package sandbox

import (
	"fmt"
	"slices"
	"time"
)

// planArchived saves and ends an instance that is stopped, or that runs at a driver that cannot stop instances. It
// stops any other instance first.
func planArchived(s Sandbox, o Observation, p Policy) []Step {
	switch {
	case s.State == Stopped, p.NoStop && (s.State == Running || s.State == Unhealthy):
		return end(s, o, p, "saved before the volume goes")
	case p.NoStop && s.Instance != "" && o.Sight != Unasked && o.Sight != Missing:
		return end(s, o, p, "saved before the volume goes")
	}
	return planStopped(s, o, p)
}

// end saves the workspace and then marks the end. After the mark no lease holder starts the instance again, because
// its volume may be gone. If the driver confirmed that the instance is gone, there is nothing to save.
func end(s Sandbox, o Observation, p Policy, reason string) []Step {
	commit := mark(EventEnd, reason)
	switch {
	case p.NoSave || s.SkipSave && s.Want == WantGone:
		return commit
	case o.Sight == Unasked:
		return observe("see what there is to save")
	case o.Sight == Missing && s.Want == WantGone:
		return mark(EventEnd, reason+"; "+goneReason(o))
	case o.Sight == Missing:
		return mark(EventLost, goneReason(o))
	}
	commit[0].Final = FinalArchive
	return append([]Step{{Op: OpSave, Reason: reason}}, commit...)
}

// planEnd plans the end of a sandbox whose end was requested or has begun.
func planEnd(now time.Time, s Sandbox, o Observation, p Policy) []Step {
	ended := Step{Op: OpMark, Event: EventEnded, Reason: "nothing left at the driver"}
	if slices.Contains(s.Finalizers, FinalArchive) && (s.Want == WantArchived || s.Want == WantStopped && p.NoStop) {
		ended.Event = EventArchive
	}
	switch {
	case s.State == Terminated:
		return nil
	case s.State != Terminating && s.Instance == "":
		return mark(EventEnd, "end requested")
	case s.State != Terminating && saveIsOver(now, s, p):
		return mark(EventEnd, fmt.Sprintf("end requested; a last save did not succeed within %s and was given up: %s", brief(p.SaveFor), s.Failure.Message))
	case s.State != Terminating:
		return end(s, o, p, "end requested")
	case o.Sight == Unasked:
		return observe("list remaining instances")
	}
	return append(finalize(s, o), ended)
}

// saveIsOver reports whether the last save of a deleted sandbox fails and has been retried for SaveFor.
func saveIsOver(now time.Time, s Sandbox, p Policy) bool {
	return s.Deleted() && p.SaveFor > 0 && s.Failure != nil && !now.Before(s.DeletedAt.Add(p.SaveFor))
}

// finalize runs the remaining finalizers in order and records each. It destroys the instance unless the driver has
// confirmed that it is gone.
func finalize(s Sandbox, o Observation) (steps []Step) {
	left := o.Sight != Missing
	destroy := Step{Op: OpDestroy, Instance: s.Instance, Reason: "end requested"}
	for _, name := range s.Finalizers {
		switch {
		case name == FinalArchive:
			continue // needs no step; planEnd checks for it
		case name != FinalInstance:
			steps = append(steps, Step{Op: OpFinal, Final: name})
		case left:
			steps, left = append(steps, destroy), false
		}
		steps = append(steps, Step{Op: OpMark, Event: EventFinal, Final: name, Reason: name + " done"})
	}
	if left {
		steps = append(steps, destroy)
	}
	return steps
}
