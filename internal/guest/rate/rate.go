// Package rate limits the bytes of process output that are copied per second. The helper in an instance uses it too,
// so it imports only package time.
package rate

import "time"

// The limits for the output of processes. Output beyond the burst is copied at the speed of a slow disk: builds and
// tests do not notice it, and a process that prints without end takes little CPU time from others.
const (
	Burst     = 32 << 20 // bytes
	PerSecond = 32 << 20 // bytes
)

// Limit is a token bucket of bytes. The zero value is full.
type Limit struct {
	debt  int64     // bytes taken and not refilled yet; PerSecond are refilled
	since time.Time // when debt was last reduced
}

// Take adds n bytes and returns the pause that the caller must make before it copies more.
func (l *Limit) Take(n int, now time.Time) time.Duration {
	if paid := l.paid(now); paid > 0 {
		l.debt, l.since = max(l.debt-paid, 0), now
	}
	l.debt += int64(n)
	if l.debt <= Burst {
		return 0
	}
	return time.Duration((l.debt-Burst)*int64(time.Second/time.Microsecond)/PerSecond) * time.Microsecond
}

// paid returns the bytes that are refilled from since to now. It is 0 if the clock was set back, and at most the bytes
// of one minute.
func (l *Limit) paid(now time.Time) int64 {
	passed := min(max(now.Sub(l.since), 0), time.Minute)
	return int64(passed/time.Microsecond) * PerSecond / int64(time.Second/time.Microsecond)
}
