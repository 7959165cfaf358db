package sandbox

import (
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
)

// Error is Berth's error: which operation met it, what kind it is in the one table of codes, and
// what to do about it.
type Error struct {
	Op    string   // what was being done, as "verb noun"
	Code  api.Code // one of the table
	Retry bool     // the same call may succeed later, unchanged
	Hint  string   // what to do; empty: the table's hint
	Err   error    // the cause, told to the caller
}

// Errorf makes an Error with the table's retry word. The format's text is the cause.
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

// Is makes errors.Is match any Error of the same code: errors.Is(err, ErrStale).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Op == "" && t.Err == nil && t.Code == e.Code
}

// Sentinels for errors.Is; they match every Error of their code.
var (
	ErrNotFound = &Error{Code: api.CodeNotFound}
	ErrDeleted  = &Error{Code: api.CodeDeleted}
	ErrDeleting = &Error{Code: api.CodeDeleting, Retry: true}
	ErrStale    = &Error{Code: api.CodeStale, Retry: true}
	ErrBusy     = &Error{Code: api.CodeBusy, Retry: true}
	// ErrOvertaken is the answer to a change that was planned on another wish than the present one.
	ErrOvertaken = errors.New("something else is wanted by now")
)

// CodeOf returns the code of the first Error in err's chain, or CodeInternal.
func CodeOf(err error) api.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return api.CodeInternal
}
