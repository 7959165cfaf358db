package sandbox

import (
	"hash/fnv"
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
	// ProbeEvery is how often a running sandbox is looked at; zero: only when asked.
	ProbeEvery time.Duration
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
