package sandbox

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Change is one fenced write of a lease holder: an event with its data. The store writes the change and its history
// entry in one transaction.
type Change struct {
	Event  Event
	Reason string // text for people: "not used for 15m"
	Actor  string // origin of the change: "reconcile", "sweep", or the caller's name
	If     Want   // required Want: if the sandbox's Want differs, nothing is written; empty: any

	Instance InstanceID // instance after the change, if the event does not imply it
	Synced   SyncMark
	Host     string   // for EventBegin: host of the new instance; empty keeps the host
	Failure  *Failure // failure after the change; nil clears it

	Restored *Restored // for EventReady: restored version; nil: none
	Lost     time.Time // time of the oldest change that is lost with the instance; zero: none

	Recovered  *Recoveries // new count of recoveries; nil keeps the count
	Finalizers []string    // for EventEnd: steps to do before the sandbox is terminated
	Final      string      // for EventFinal: finalizer that is done
}

// Transition is one entry of a sandbox's history.
type Transition struct {
	Seq         int64
	At          time.Time
	Event       Event // empty for a change of Want
	From, To    State
	Want        Want
	Reason      string
	Actor       string
	Generation  int64
	Incarnation int64
	Instance    InstanceID
}

// Apply returns the record after the change; to is the new state according to the matrix. The store writes the
// result.
func (s Sandbox) Apply(c Change, to State, now time.Time) Sandbox {
	from := s.State
	s.State, s.Instance, s.Synced, s.Failure = to, c.Instance, c.Synced, c.Failure
	switch c.Event {
	case EventBegin:
		s.Incarnation, s.Instance, s.Restored = s.Incarnation+1, "", Restored{}
		s.Host = cmp.Or(c.Host, s.Host)
	case EventReady:
		if c.Restored != nil {
			s.Restored = *c.Restored
		}
		s.ProbedAt = now
		if from != Unhealthy {
			s.StartedAt = now
		}
	case EventEnd:
		s.Finalizers = c.Finalizers
	case EventFinal:
		s.Finalizers = slices.DeleteFunc(slices.Clone(s.Finalizers), func(name string) bool { return name == c.Final })
	case EventLost, EventEnded, EventArchive:
		s.Instance, s.DestroyedAt, s.Finalizers = "", now, nil
	}
	switch was, is := from.ThreadStatus(), to.ThreadStatus(); {
	case is == "paused" && was != "paused":
		s.PausedAt = now
	case is == "active" && was == "resuming":
		s.ResumedAt = now
	}
	if c.EndsFiles() {
		s.UnsavedSince, s.ChangedAt, s.SaveFailure = time.Time{}, time.Time{}, nil
	}
	if !c.Lost.IsZero() {
		s.Lost = Lost{Since: c.Lost, At: now}
	}
	if c.Recovered != nil {
		s.Recovered = *c.Recovered
	}
	return s
}

// EndsFiles reports whether the instance's files no longer exist after the change.
func (c Change) EndsFiles() bool {
	return c.Event == EventLost || c.Event == EventEnded || c.Event == EventArchive
}

// ErrOvertaken is the error of a change that was planned for an earlier desired state.
var ErrOvertaken = errors.New("the desired state has changed")
