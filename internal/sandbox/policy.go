package sandbox

import (
	"hash/fnv"
	"strings"
	"time"
)

// Policy is what a template and its owner's kind say about timing. The zero Policy has no timers.
type Policy struct {
	Timers  Timers
	Backoff Backoff
	// RetryEvery is how long to wait before asking again a driver that could not be reached, and
	// before repeating a stop or an end that did not go through.
	RetryEvery time.Duration
	// NoStop says that the driver cannot stop an instance and keep its files: to stop one is to save
	// and end it.
	NoStop bool
	// NoSave says that nobody can save a workspace here. Nothing then ends a volume by itself: no timer
	// archives or deletes, and what cannot be stopped is not stopped.
	NoSave bool
	// NoRecover leaves a sandbox that is lost or unhealthy to its next use.
	NoRecover bool
	// ProbeEvery is how often a running sandbox is looked at; zero: only when asked.
	ProbeEvery time.Duration
	// ProbeAgain is how long after a failed probe the next one decides: a single one never does.
	ProbeAgain time.Duration
	// Breaker ends recoveries that do not last.
	Breaker Breaker
	// Unreachable is what to do about an instance that nobody could say anything about for
	// UnreachableAfter.
	Unreachable      Unseen
	UnreachableAfter time.Duration
	// SaveAfter is how long a changed workspace must be quiet before it is saved, SaveEvery how long
	// changes wait at most while it is not. Zero: it is saved only by turns, when asked and before its end.
	SaveAfter, SaveEvery time.Duration
	// TurnUntil is when the hold of the turn that runs in the sandbox ends. Until then the save is the
	// turn's. Zero: no turn runs.
	TurnUntil time.Time
	// SaveFor is how long a delete tries to save a last version before it goes on without.
	SaveFor time.Duration
}

// Unseen is a way to deal with an instance that cannot be reached.
type Unseen string

// The ways. An instance that cannot be reached may run, and be all there is of somebody's work.
const (
	UnseenWait    Unseen = "wait"    // until it can be reached again; the default
	UnseenReplace Unseen = "replace" // by a new one at once; for a time two may run
	UnseenFence   Unseen = "fence"   // by a new one, once the driver has confirmed the end of the old
)

// Breaker bounds how often a sandbox is recovered: after so many recoveries within the window it is
// left in error, for its next use to try again. No attempts: no bound.
type Breaker struct {
	Attempts int
	Window   time.Duration
}

// Recoveries counts recoveries within one window.
type Recoveries struct {
	Count int
	Since time.Time
}

// add counts one more, and reports whether that is too many.
func (b Breaker) add(r Recoveries, now time.Time) (_ Recoveries, open bool) {
	if r.Count == 0 || now.Sub(r.Since) > b.Window {
		r = Recoveries{Since: now}
	}
	r.Count++
	return r, b.Attempts > 0 && r.Count > b.Attempts
}

// Timers act on a sandbox that nobody uses. Zero turns one off.
type Timers struct {
	Stop    time.Duration // after the last use
	Archive time.Duration // after the last use
	Delete  time.Duration // after the last use: a terminate, so the next use still revives it
	MaxAge  time.Duration // after the instance became ready, used or not
}

// Backoff spaces out attempts after failures.
type Backoff struct {
	Base, Max time.Duration
	Attempts  int // failures in a row after which only a new use tries again
}

// DefaultPolicy is what applies to a kind of owner when its template says nothing else.
func DefaultPolicy(kind OwnerKind) Policy {
	return Policy{
		Timers:     defaultTimers[kind],
		Backoff:    Backoff{Base: time.Second, Max: time.Minute, Attempts: 5},
		RetryEvery: 5 * time.Second,
		ProbeEvery: time.Minute,
		ProbeAgain: 2 * time.Second,
		Breaker:    Breaker{Attempts: 5, Window: 10 * time.Minute},

		UnreachableAfter: 5 * time.Minute,
		SaveFor:          10 * time.Minute,
		SaveAfter:        30 * time.Second,
		SaveEvery:        5 * time.Minute,
	}
}

const day = 24 * time.Hour

var defaultTimers = map[OwnerKind]Timers{
	OwnerThread:       {Stop: 5 * time.Minute, Archive: time.Hour, Delete: 2 * day},
	OwnerConversation: {Stop: 15 * time.Minute, Archive: day},
	OwnerSandbox:      {Stop: 15 * time.Minute, Archive: day},
	OwnerProject:      {},
}

// Delay is how long to wait after the given number of failures in a row. It is jittered by id, so
// that sandboxes which failed together do not come back together.
func (b Backoff) Delay(id string, attempts int) time.Duration {
	d := b.Base
	for range attempts - 1 {
		if d >= b.Max {
			break
		}
		d *= 2
	}
	return jitter(min(d, b.Max), id)
}

// jitter spreads d over three quarters to five quarters of itself, always the same for one id.
func jitter(d time.Duration, id string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return d*3/4 + d/2*time.Duration(h.Sum32()%1024)/1024
}

// brief is a duration for people: 15m, not 15m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
