package sandbox

import (
	"fmt"
	"slices"
	"time"
)

// planArchived saves and ends what is stopped, or what runs at a driver that cannot stop it.
func planArchived(s Sandbox, o Observation, p Policy) []Step {
	switch {
	case s.State == Stopped, p.NoStop && (s.State == Running || s.State == Unhealthy):
		return end(s, o, p, "saved before the volume goes")
	case p.NoStop && s.Instance != "" && o.Sight != Unasked && o.Sight != Missing:
		return end(s, o, p, "saved before the volume goes")
	}
	return planStopped(s, o, p)
}

// end saves, then commits to the end. From there on nobody revives the instance, whoever holds the
// lease: its volume may be gone already. What is confirmed to be gone need not be saved, and cannot be.
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

func planEnd(now time.Time, s Sandbox, o Observation, p Policy) []Step {
	ended := Step{Op: OpMark, Event: EventEnded, Reason: "nothing left at the driver"}
	if slices.Contains(s.Finalizers, FinalArchive) && (s.Want == WantArchived || s.Want == WantStopped && p.NoStop) {
		ended.Event = EventArchive
	}
	switch {
	case s.State == Terminated:
		return nil
	case s.State != Terminating && s.Instance == "":
		return mark(EventEnd, "asked to go")
	case s.State != Terminating && saveIsOver(now, s, p):
		return mark(EventEnd, fmt.Sprintf("asked to go; a last save did not succeed within %s and was given up: %s", brief(p.SaveFor), s.Failure.Message))
	case s.State != Terminating:
		return end(s, o, p, "asked to go")
	case o.Sight == Unasked:
		return observe("find what is left")
	}
	return append(finalize(s, o), ended)
}

// saveIsOver reports whether a deleted sandbox has been kept long enough by a save that fails.
func saveIsOver(now time.Time, s Sandbox, p Policy) bool {
	return s.Deleted() && p.SaveFor > 0 && s.Failure != nil && !now.Before(s.DeletedAt.Add(p.SaveFor))
}

// finalize does what is left, in order, each recorded when it is done. The instance always goes.
func finalize(s Sandbox, o Observation) (steps []Step) {
	left := o.Sight != Missing
	destroy := Step{Op: OpDestroy, Instance: s.Instance, Reason: "asked to go"}
	for _, name := range s.Finalizers {
		switch {
		case name == FinalArchive:
			continue // done when it is over
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
