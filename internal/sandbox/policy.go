package sandbox

import (
	"hash/fnv"
	"strings"
	"time"
)

// Policy holds the timing rules of a template for a kind of owner. The zero Policy has no timers.
type Policy struct {
	Timers  Timers
	Backoff Backoff
	// RetryEvery is the pause before a retry of a driver that did not answer, and of a stop or an end that failed.
	RetryEvery time.Duration
	// NoStop reports whether the driver cannot stop an instance and keep its files. Such an instance is saved and
	// ended instead of stopped.
	NoStop bool
	// NoSave reports whether workspaces cannot be saved. Timers then never archive or delete, and an instance that
	// cannot be stopped without losing files is not stopped.
	NoSave bool
	// NoRecover turns off the recovery of a lost or unhealthy sandbox until its next use.
	NoRecover bool
	// ProbeEvery is the interval of health probes of a running sandbox; zero: only on request.
	ProbeEvery time.Duration
	// ProbeAgain is the pause between a failed probe and the next. Recovery starts only if the second probe fails too.
	ProbeAgain time.Duration
	// Breaker limits repeated recoveries.
	Breaker Breaker
	// Unreachable selects how to handle an instance whose state was unknown for UnreachableAfter.
	Unreachable      Unseen
	UnreachableAfter time.Duration
	// SaveAfter is the time without changes after which a changed workspace is saved. SaveEvery is the longest time
	// that a change waits for a save. Zero SaveAfter: only turns, requests and the end of the sandbox save.
	SaveAfter, SaveEvery time.Duration
	// TurnUntil is the end of the running turn's hold. Until then timers do not save: the end of the turn does. Zero:
	// no turn runs.
	TurnUntil time.Time
	// SaveFor is the time for which a delete retries the last save before it continues without a save.
	SaveFor time.Duration
}

// Unseen selects how to handle an instance that cannot be reached.
type Unseen string

// The values of Unseen. An instance that cannot be reached may still run, and its files may be the only copy.
const (
	UnseenWait    Unseen = "wait"    // wait until it can be reached again; the default
	UnseenReplace Unseen = "replace" // create a new instance at once; for a time both may run
	UnseenFence   Unseen = "fence"   // create a new instance after the driver has confirmed the end of the old one
)

// Breaker limits recoveries. After Attempts recoveries within Window, the sandbox stays in error until its next use.
// Zero Attempts: no limit.
type Breaker struct {
	Attempts int
	Window   time.Duration
}

// Recoveries counts recoveries within one window of a Breaker.
type Recoveries struct {
	Count int
	Since time.Time // start of the window
}

// add counts one recovery. The result open reports whether there are too many.
func (b Breaker) add(r Recoveries, now time.Time) (_ Recoveries, open bool) {
	if r.Count == 0 || now.Sub(r.Since) > b.Window {
		r = Recoveries{Since: now}
	}
	r.Count++
	return r, b.Attempts > 0 && r.Count > b.Attempts
}

// Timers holds the times after which a sandbox is stopped, archived or deleted without a request. Zero turns a timer
// off.
type Timers struct {
	Stop    time.Duration // since the last use
	Archive time.Duration // since the last use
	Delete  time.Duration // since the last use; terminates the sandbox, and the next use revives it
	MaxAge  time.Duration // since the instance became ready; stops the sandbox
}

// Backoff computes pauses between attempts after failures.
type Backoff struct {
	Base, Max time.Duration
	Attempts  int // number of failures in a row after which only a new use retries
}

// DefaultPolicy applies to a kind of owner if its template sets nothing else.
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

// Delay returns the pause after the given number of failures in a row. It is jittered by id, so that sandboxes
// which failed together do not retry together.
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

// jitter returns d times a factor between 0.75 and 1.25. The factor depends only on the id.
func jitter(d time.Duration, id string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return d*3/4 + d/2*time.Duration(h.Sum32()%1024)/1024
}

// brief formats a duration without zero units: 15m, not 15m0s.
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
