package sandbox

import (
	"cmp"
	"slices"
	"time"
)

// Change is one fenced write of a lease holder: an event and what goes with it. The store applies it
// and its history entry together, or not at all.
type Change struct {
	Event  Event
	Reason string // why, for people: "idle for 15m0s", "driver confirmed it gone"
	Actor  string // who: "request", "timer", "reconcile", "recovery"
	If     Want   // what it was planned on: if something else is wanted by now, nothing is written; empty: whatever

	Instance InstanceID // the instance after the change, where the event does not say it
	Synced   SyncMark
	Host     string   // of EventBegin: the machine that the new instance belongs to; empty keeps it
	Failure  *Failure // nil clears it

	Restored *Restored // of EventReady: what the start brought back; nil: nothing
	Lost     time.Time // since when the changes are that are lost with the instance; zero: none are

	Recovered  *Recoveries // nil keeps the count
	Finalizers []string    // of EventEnd: what must be done before it has ended
	Final      string      // of EventFinal: the one that is done
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

// Apply returns the record after the change: what a store writes. To is the matrix's answer.
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

// EndsFiles reports whether the change is the end of an instance's files, saved or not.
func (c Change) EndsFiles() bool {
	return c.Event == EventLost || c.Event == EventEnded || c.Event == EventArchive
}
