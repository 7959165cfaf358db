// Package fault is Berth's error type. Each [Error] has a code of the table in package api, so that callers of Go
// packages, of the HTTP API and of the command line all get the same code.
package fault

import (
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
)

// Error describes a failed operation: its name, the kind of failure, the cause, and a hint for the caller.
type Error struct {
	Op    string   // failed operation, as "verb noun"
	Code  api.Code // code of the table in package api
	Retry bool     // the same call may succeed later, unchanged
	Hint  string   // next step for the caller; empty: the hint of the table
	Err   error    // cause; its text is shown to the caller
}

// Errorf returns an Error whose cause is the formatted text. Retry is set if the code is retryable.
func Errorf(op string, code api.Code, format string, args ...any) *Error {
	return &Error{Op: op, Code: code, Retry: code.Info().Retryable, Err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Op + ": " + e.Code.Info().Title
	case e.Op == "":
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of the error's code, for example ErrStale.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Op == "" && t.Err == nil && t.Code == e.Code
}

// Sentinels for errors.Is. Each matches every Error of its code.
var (
	ErrNotFound = &Error{Code: api.CodeNotFound}
	ErrDeleted  = &Error{Code: api.CodeDeleted}
	ErrDeleting = &Error{Code: api.CodeDeleting, Retry: true}
	ErrStale    = &Error{Code: api.CodeStale, Retry: true}
	ErrBusy     = &Error{Code: api.CodeBusy, Retry: true}
)

// CodeOf returns the code of the first Error in err's chain, or CodeInternal.
func CodeOf(err error) api.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return api.CodeInternal
}
