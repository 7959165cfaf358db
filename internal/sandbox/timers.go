package sandbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
)

// planTimers is what happens to a sandbox that is where it should be and nobody uses.
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

// timed reports whether timers apply to the sandbox. One in error may still cost something; but what its
// driver refuses is for a person to see.
func timed(s Sandbox) bool {
	switch {
	case s.Deleted() || s.State == Pending || s.State == Terminated:
		return false
	case s.State == Failed:
		return s.Instance != "" && s.Failure != nil && s.Failure.Code != api.CodeDriverRefused
	}
	return true
}

type timer struct {
	what  string
	at    time.Time
	why   string
	off   string // why it does not fire
	steps []Step
}

// timersOf lists the timers that are set for this state, the gravest first. Holds keep those away that
// change something.
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

// atLeast reports whether w already asks for as little as other or less.
func (w Want) atLeast(other Want) bool { return rank[w] >= rank[other] }

var rank = map[Want]int{WantRunning: 0, WantStopped: 1, WantArchived: 2, WantGone: 3}

// Prospect is something that will happen to a sandbox by itself, or would if nothing kept it away.
type Prospect struct {
	What string    // stop, archive, delete, save, probe, retry, or work when it is being worked on
	At   time.Time // zero: not by itself
	Why  string
	Off  string // what keeps it away for good
}

// Ahead lists what will happen to a sandbox that nobody uses, the nearest first.
func Ahead(now time.Time, s Sandbox, p Policy) (ahead []Prospect) {
	if s.Deleted() && s.State == Terminated {
		return nil
	}
	until, waits := held(now, s, p)
	switch {
	case waits && until.IsZero():
		ahead = []Prospect{{What: "retry", Why: "recovery gave up; the next use tries again"}}
	case waits:
		ahead = []Prospect{{What: "retry", At: until, Why: fmt.Sprintf("attempt %d", s.Failure.Attempts+1)}}
	case !s.Settled():
		return []Prospect{{What: "work", At: latest(now, s.DueAt), Why: fmt.Sprintf("it is %s and asked to be %s", s.State, s.Want)}}
	}
	if !timed(s) {
		return ahead
	}
	for _, t := range timersOf(s, p) {
		prospect := Prospect{What: t.what, At: latest(now, t.at), Why: t.why, Off: t.off}
		if t.off != "" {
			prospect.At = time.Time{}
		}
		ahead = append(ahead, prospect)
	}
	if at := saveDue(s, p); !at.IsZero() {
		ahead = append(ahead, Prospect{What: "save", At: latest(now, at), Why: saveReason(s)})
	}
	slices.SortStableFunc(ahead, func(a, b Prospect) int {
		if a.At.IsZero() != b.At.IsZero() {
			return map[bool]int{true: 1, false: -1}[a.At.IsZero()]
		}
		return a.At.Compare(b.At)
	})
	return ahead
}

// earliest is the earlier of two times, of which zero is never.
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
