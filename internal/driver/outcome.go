package driver

import (
	"context"
	"errors"
)

// The operations, as metrics and logs name them.
const (
	OpCreate  = "create"
	OpInspect = "inspect"
	OpList    = "list"
	OpDestroy = "destroy"
	OpStop    = "stop"
	OpStart   = "start"
	OpFreeze  = "freeze"
	OpThaw    = "thaw"
	OpGuest   = "guest"
	OpFiles   = "files"
)

// outcomes are the words for errors that match a sentinel, in the order they are tried.
var outcomes = []struct {
	err  error
	word string
}{
	{ErrNotFound, "not_found"},
	{ErrNotRunning, "not_running"},
	{ErrUnsupported, "unsupported"},
	{ErrQuota, "quota"},
	{ErrUnauthenticated, "unauthenticated"},
	{ErrInvalid, "invalid"},
}

// Classify gives the outcome of a call as one word: "ok", "exists", "canceled", "timeout",
// "transient", "not_found", "not_running", "unsupported", "quota", "unauthenticated", "invalid", or
// "error" for what a driver could not classify. The set is closed, so that it can label a metric.
//
// A transient error is "transient" whatever it wraps, and a call its caller gave up is "canceled" or
// "timeout" whatever the driver said meanwhile.
func Classify(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case is[*TransientError](err):
		return "transient"
	case is[*ExistsError](err):
		return "exists"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.word
		}
	}
	return "error"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
