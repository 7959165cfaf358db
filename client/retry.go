package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/berthdev/berth/api"
)

const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
	// A server that asks for more patience than this is better reported than waited for.
	mostRetryAfter = time.Minute
)

// retryable says whether the same call, sent again, may do better. All calls are safe to send
// again: reads, PUT and DELETE by nature, POST by its Idempotency-Key. A turn that runs is not waited for: it
// takes as long as it takes.
func retryable(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Retryable && p.Code != api.CodeTurnRunning && !errors.Is(err, context.Canceled)
}

// wait is the pause after the given attempt: what the server asked for, or else a doubling one, cut
// at random so that clients thrown out together do not come back together.
func (r reply) wait(attempt int) time.Duration {
	if r.retryAfter > 0 {
		return r.retryAfter
	}
	wait := min(firstWait<<min(attempt-1, 10), mostWait)
	return wait/2 + rand.N(wait/2)
}

// pause waits, and reports false at once if the wait does not fit into what is left of the context.
func pause(ctx context.Context, d time.Duration) bool {
	deadline, has := ctx.Deadline()
	if d > mostRetryAfter || has && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryAfter reads the Retry-After header in both its forms; zero when there is none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		// Bounded before the multiplication, which could overflow.
		return time.Duration(min(seconds, 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
