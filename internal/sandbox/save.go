package sandbox

import (
	"fmt"
	"time"
)

// planSave saves a workspace that changed outside a turn, after SaveAfter without changes or when a change has waited
// for SaveEvery. The sandbox's state does not change. A failed save is retried with growing pauses.
func planSave(now time.Time, s Sandbox, o Observation, p Policy) ([]Step, time.Time) {
	at := saveDue(s, p)
	switch {
	case at.IsZero() || s.State != Running && s.State != Stopped:
		return nil, time.Time{}
	case now.Before(at):
		return nil, at
	case o.Sight == Unasked:
		return observe("see what there is to save"), time.Time{}
	}
	return []Step{{Op: OpSave, Reason: saveReason(s), Soft: true}}, time.Time{}
}

// saveDue returns the time at which a timer saves the workspace; zero: there are no changes, or timers do not save
// them. SaveAfter does not apply if the last recorded change is older than UnsavedSince: then only processes can have
// changed files since, and their changes are not recorded.
func saveDue(s Sandbox, p Policy) time.Time {
	if p.NoSave || p.SaveAfter <= 0 || s.UnsavedSince.IsZero() || s.Instance == "" {
		return time.Time{}
	}
	at := s.UnsavedSince.Add(p.SaveEvery)
	if !s.ChangedAt.Before(s.UnsavedSince) {
		at = earliest(at, s.ChangedAt.Add(p.SaveAfter))
	}
	if f := s.SaveFailure; f != nil {
		at = latest(at, f.At.Add(saveBackoff.Delay(s.ID, f.Attempts)))
	}
	return latest(at, p.TurnUntil)
}

// saveBackoff computes the pauses between saves that fail.
var saveBackoff = Backoff{Base: 5 * time.Second, Max: time.Minute}

func saveReason(s Sandbox) string {
	return fmt.Sprintf("changed since %s", s.UnsavedSince.UTC().Format(time.RFC3339))
}
