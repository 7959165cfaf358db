package sandbox

import (
	"fmt"
	"time"
)

// planSave saves a workspace that changed outside a turn, once it has been quiet for a while or changes
// have waited long enough. The state stays what it is. A save that fails is tried again with growing
// pauses.
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

// saveDue is when the changes of a workspace are saved; zero: there are none, or they are not saved by a
// timer. Where the last change was recorded before the last save began, only processes that still ran
// then can have changed more.
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

// saveBackoff spaces out saves that fail.
var saveBackoff = Backoff{Base: 5 * time.Second, Max: time.Minute}

func saveReason(s Sandbox) string {
	return fmt.Sprintf("changed since %s", s.UnsavedSince.UTC().Format(time.RFC3339))
}
