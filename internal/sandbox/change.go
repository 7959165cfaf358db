package sandbox

import "time"

// Change is one fenced write of a lease holder: an event and what goes with it. The store applies it
// and its history entry together, or not at all.
type Change struct {
	Event  Event
	Reason string // why, for people: "idle for 15m0s", "driver confirmed it gone"
	Actor  string // who: "request", "timer", "reconcile", "recovery"

	Instance InstanceID // the instance after the change, where the event does not say it
	Synced   SyncMark
	Failure  *Failure // nil clears it
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
	s.State, s.Instance, s.Synced, s.Failure = to, c.Instance, c.Synced, c.Failure
	switch c.Event {
	case EventBegin:
		s.Incarnation, s.Instance = s.Incarnation+1, ""
	case EventReady:
		s.StartedAt, s.ProbedAt = now, now
	case EventLost, EventEnded, EventArchive:
		s.Instance, s.DestroyedAt = "", now
	}
	return s
}
