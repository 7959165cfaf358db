package sandbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
)

// planTimers returns the steps of a timer that has expired, or the time at which the next timer expires.
func planTimers(now time.Time, s Sandbox, p Policy) ([]Step, time.Time) {
	if !timed(s) {
		return nil, time.Time{}
	}
	var due time.Time
	for _, t := range timersOf(s, p) {
		switch {
		case t.off != "":
		case !t.at.After(now):
			return t.steps, time.Time{}
		case due.IsZero() || t.at.Before(due):
			due = t.at
		}
	}
	return nil, due
}

// timed reports whether timers apply to the sandbox. They also apply to a sandbox in error that has an instance, but
// not if the driver refused to run it: an operator must see such an error.
func timed(s Sandbox) bool {
	switch {
	case s.Deleted() || s.State == Pending || s.State == Terminated:
		return false
	case s.State == Failed:
		return s.Instance != "" && s.Failure != nil && s.Failure.Code != api.CodeDriverRefused
	}
	return true
}

// timer is a timer of a sandbox: a name, the time at which it expires, the reason, and the steps to take then.
type timer struct {
	what  string
	at    time.Time
	why   string
	off   string // reason for which the timer is off; empty: it is on
	steps []Step
}

// timersOf lists the timers for this state: delete, archive, stop, probe. A hold delays all timers but the probe.
func timersOf(s Sandbox, p Policy) (ts []timer) {
	add := func(what string, since time.Time, d time.Duration, want Want, why string, endsVolume bool) {
		if d <= 0 || s.Want.atLeast(want) {
			return
		}
		t := timer{what: what, at: since.Add(d), why: fmt.Sprintf("%s for %s", why, brief(d))}
		if s.HeldUntil.After(t.at) {
			t.at, t.why = s.HeldUntil, t.why+", and held until then"
		}
		if endsVolume && p.NoSave {
			t.off = "it would lose the files, which this server cannot save"
		}
		t.steps = []Step{{Op: OpAsk, Want: want, Reason: t.why}}
		ts = append(ts, t)
	}
	add("delete", s.ActiveAt, p.Timers.Delete, WantGone, "not used", true)
	add("archive", s.ActiveAt, p.Timers.Archive, WantArchived, "not used", true)
	add("stop", s.ActiveAt, p.Timers.Stop, WantStopped, "not used", p.NoStop)
	add("stop", s.StartedAt, p.Timers.MaxAge, WantStopped, "running", p.NoStop)
	if next := probeDue(s, p); s.State == Running && !next.IsZero() {
		ts = append(ts, timer{what: "probe", at: next, why: "health check", steps: observe("health check")})
	}
	return ts
}

// atLeast reports whether w keeps no more of a sandbox than other does.
func (w Want) atLeast(other Want) bool { return wantRank[w] >= wantRank[other] }

// wantRank orders the desired states: a higher rank keeps less of a sandbox.
var wantRank = map[Want]int{WantRunning: 0, WantStopped: 1, WantArchived: 2, WantGone: 3}

// Upcoming is a change that will happen to a sandbox without a request.
type Upcoming struct {
	What string    // stop, archive, delete, save, probe, retry, or work while the engine works on the sandbox
	At   time.Time // zero: it waits for a request, or is off
	Why  string
	Off  string // reason for which the change is off; empty: it is on
}

// Ahead lists the upcoming changes of a sandbox that is not used, the nearest first.
func Ahead(now time.Time, s Sandbox, p Policy) (ahead []Upcoming) {
	if s.Deleted() && s.State == Terminated {
		return nil
	}
	until, waits := held(now, s, p)
	switch {
	case waits && until.IsZero():
		ahead = []Upcoming{{What: "retry", Why: gaveUp(s)}}
	case waits:
		ahead = []Upcoming{{What: "retry", At: until, Why: fmt.Sprintf("attempt %d", s.Failure.Attempts+1)}}
	case !s.Settled():
		return []Upcoming{{What: "work", At: latest(now, s.DueAt), Why: fmt.Sprintf("it is %s, and its desired state is %s", s.State, s.Want)}}
	}
	if !timed(s) {
		return ahead
	}
	for _, t := range timersOf(s, p) {
		prospect := Upcoming{What: t.what, At: latest(now, t.at), Why: t.why, Off: t.off}
		if t.off != "" {
			prospect.At = time.Time{}
		}
		ahead = append(ahead, prospect)
	}
	if at := saveDue(s, p); !at.IsZero() {
		ahead = append(ahead, Upcoming{What: "save", At: latest(now, at), Why: saveReason(s)})
	}
	slices.SortStableFunc(ahead, func(a, b Upcoming) int {
		if a.At.IsZero() != b.At.IsZero() {
			return map[bool]int{true: 1, false: -1}[a.At.IsZero()]
		}
		return a.At.Compare(b.At)
	})
	return ahead
}

// gaveUp returns the reason for which a failed sandbox is not retried without a request.
func gaveUp(s Sandbox) string {
	if s.Failure.Code == api.CodeHookFailed {
		return "a cold start hook refused the start; the next use tries again"
	}
	return "recovery gave up; the next use tries again"
}

// earliest returns the earlier of two times; zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
