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
	maxWait   = 5 * time.Second
	// A longer Retry-After is not waited for: the call fails with the server's problem.
	maxRetryAfter = time.Minute
)

// retryable reports whether the same call may succeed if it is sent again. All calls are safe to send again: reads,
// PUT and DELETE are idempotent, and POST has an Idempotency-Key. A call that conflicts with a running turn is not
// repeated, because the turn may take long. A call that failed on a store is not repeated either, because the server
// has already waited for the store.
func retryable(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Retryable && !waitedFor(p.Code) && !errors.Is(err, context.Canceled)
}

func waitedFor(code api.Code) bool {
	switch code {
	case api.CodeTurnRunning, api.CodeBlobUnreachable, api.CodeSyncFailed, api.CodeMessageStore:
		return true
	}
	return false
}

// wait returns the pause after the given attempt: the server's Retry-After, or else a pause that doubles with each
// attempt. A part of it is random, so that clients do not all return at the same moment.
func (r reply) wait(attempt int) time.Duration {
	if r.retryAfter > 0 {
		return r.retryAfter
	}
	wait := min(firstWait<<min(attempt-1, 10), maxWait)
	return wait/2 + rand.N(wait/2)
}

// pause waits for d and reports true. It reports false at once if d is longer than maxRetryAfter or if the context
// would end before.
func pause(ctx context.Context, d time.Duration) bool {
	deadline, has := ctx.Deadline()
	if d > maxRetryAfter || has && time.Until(deadline) <= d {
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

// retryAfter returns the value of the Retry-After header, in either of its two forms, or zero if there is none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		// The limit prevents an overflow of the multiplication.
		return time.Duration(min(seconds, 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
