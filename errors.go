package berth

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
)

// The kinds of errors, for errors.Is. The error's message has the details; [Error] has its code and a hint.
var (
	ErrInvalidSandboxID      = errors.New("invalid sandbox id")      // not a UUID
	ErrInvalidAccount        = errors.New("invalid account")         // the account's id or tenant cannot be used
	ErrInvalidConfig         = errors.New("invalid config")          // a Config, a Template or an Option cannot be used
	ErrSandboxNotRunning     = errors.New("sandbox not running")     // the operation needs an instance
	ErrSandboxNotAccessible  = errors.New("sandbox not accessible")  // it does not exist, is deleted, is another account's, or does not answer
	ErrSandboxCreationFailed = errors.New("sandbox creation failed") // the driver made no instance
	ErrReconstructionFailed  = errors.New("reconstruction failed")   // a sandbox could not be opened for another reason
	ErrStateUpdateFailed     = errors.New("state update failed")     // the sandbox's record could not be read or written
	ErrHookExecutionFailed   = errors.New("hook execution failed")   // a hook of PhaseColdStart failed
	ErrSyncFailed            = errors.New("sync failed")             // the workspace was not saved or restored
	ErrTurnRunning           = errors.New("turn running")            // the call is not possible while a turn runs
	ErrClosed                = errors.New("berth closed")            // after Close, or after a newer Berth migrated the database
)

// kinds maps each kind of error to its codes.
var kinds = []struct {
	is    error
	codes []api.Code
}{
	{ErrInvalidConfig, []api.Code{api.CodeInvalidConfig, api.CodeUnknownTemplate, api.CodeUnknownDriver, api.CodeUnknownProfile, api.CodeSpecMismatch}},
	{ErrSandboxNotRunning, []api.Code{api.CodeNotRunning, api.CodeUnhealthy}},
	{ErrSandboxNotAccessible, []api.Code{api.CodeDriverUnreachable, api.CodeWrongHost, api.CodeNotFound, api.CodeDeleted}},
	{ErrSandboxCreationFailed, []api.Code{api.CodeCreateFailed, api.CodeDriverRefused, api.CodeQuotaExceeded, api.CodeServerDiskFull}},
	{ErrStateUpdateFailed, []api.Code{api.CodeStale, api.CodeBusy, api.CodeStoreUnavailable, api.CodeTimeout}},
	{ErrHookExecutionFailed, []api.Code{api.CodeHookFailed}},
	{ErrSyncFailed, []api.Code{api.CodeSyncFailed, api.CodeBlobUnreachable, api.CodeBlobFull, api.CodeMassDelete, api.CodeWorkspaceTooLarge, api.CodeBadManifest}},
	{ErrTurnRunning, []api.Code{api.CodeTurnRunning}},
}

// Error is an error of this package. With [errors.Is] it matches its kind, such as [ErrSandboxNotRunning], and its
// cause.
type Error struct {
	// Op is the operation that failed, such as "list files".
	Op string
	// Code is the stable code of the failure. The HTTP API uses the same codes.
	Code api.Code
	// Hint is the next step for the caller, as text.
	Hint string
	// Retryable reports whether the same call may succeed later.
	Retryable bool

	kind  error // nil: the error has no kind
	cause error
}

// Error returns the operation and its cause.
func (e *Error) Error() string { return e.Op + ": " + e.cause.Error() }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.kind == nil {
		return []error{e.cause}
	}
	return []error{e.kind, e.cause}
}

// hints replaces the hints of the table of codes that concern the HTTP API or the command line.
var hints = map[api.Code]string{
	api.CodeInternal:       "The log has more (Config.Log).",
	api.CodeInvalidConfig:  "Correct the field of Config, or the key of its File or Settings, that the error names.",
	api.CodeInvalidID:      "Ids are UUIDs; NewID makes one.",
	api.CodeInvalidRequest: "Compare the call with the package's documentation.",
	api.CodeNotFound:       "Check the id and the account.",
	api.CodeTurnRunning:    "Wait for the turn, or end it with CancelTurn; a prompt may wait with Prompt.Queue.",
}

// wrap adds the operation to an error, and the kind that belongs to its code.
func wrap(op string, err error) error {
	return wrapAs(op, err, kindOf(err))
}

func kindOf(err error) error {
	if contextEnded(err) || errors.Is(err, ErrClosed) {
		return nil
	}
	code := fault.CodeOf(err)
	for _, k := range kinds {
		if slices.Contains(k.codes, code) {
			return k.is
		}
	}
	return nil
}

func contextEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// wrapAs is wrap with a given kind. It returns an error that was wrapped before unchanged.
func wrapAs(op string, err, kind error) error {
	if err == nil {
		return nil
	}
	if e := new(Error); errors.As(err, &e) {
		return err
	}
	e := &Error{Op: op, Code: fault.CodeOf(err), kind: kind, cause: err}
	if bad := new(config.Error); errors.As(err, &bad) {
		e.Code, e.kind = api.CodeInvalidConfig, ErrInvalidConfig
	}
	e.advise()
	return e
}

// advise sets Hint and Retryable. If the context has ended, it also sets Code.
func (e *Error) advise() {
	if e.Code == api.CodeInternal && contextEnded(e.cause) {
		e.Code, e.Retryable, e.Hint = api.CodeTimeout, true, "The context of the call has ended."
		return
	}
	if errors.Is(e.cause, ErrClosed) {
		e.Hint = "Open Berth again."
		return
	}
	info := e.Code.Info()
	e.Hint, e.Retryable = cmp.Or(hints[e.Code], info.Hint), info.Retryable
	if f := new(fault.Error); errors.As(e.cause, &f) {
		e.Hint, e.Retryable = cmp.Or(f.Hint, e.Hint), f.Retry
	}
}
