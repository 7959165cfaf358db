package driver

import (
	"context"
	"errors"
)

// The names of the operations in metrics and logs.
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
	OpExpose  = "expose"
)

// outcomes are the outcomes of the sentinel errors. Classify returns the first that matches.
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

// Classify returns the outcome of a call as one word: "ok", "exists", "canceled", "timeout",
// "transient", "not_found", "not_running", "unsupported", "quota", "unauthenticated", "invalid", or
// "error" for all other errors. There are no other outcomes, so that they can label a metric.
//
// The end of the context takes precedence: the outcome is then "canceled" or "timeout", whatever else
// err wraps. A TransientError is otherwise "transient", whatever it wraps.
func Classify(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case hasType[*TransientError](err):
		return "transient"
	case hasType[*ExistsError](err):
		return "exists"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.word
		}
	}
	return "error"
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
