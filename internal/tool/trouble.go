package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
)

// agentCodes are the codes of errors that an agent can correct, for example a missing file or a full disk. These errors
// become results.
var agentCodes = []api.Code{
	api.CodeInvalidPath, api.CodePathOutside, api.CodeFileNotFound, api.CodeFileExists, api.CodeFileDenied,
	api.CodeIsADirectory, api.CodeNotADirectory, api.CodeSpecialFile, api.CodeDiskFull, api.CodeConflict, api.CodeTooLarge,
}

// errTime is the cause of a context that ended because of the tool's timeout.
var errTime = errors.New("the tool's time is over")

// within returns a context with the timeout of a tool that accesses files from outside.
func (j *job) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, min(cmp.Or(j.timeout, FileTime), MaxFileTime), errTime)
}

// overtime reports whether ctx ended because of the tool's timeout, and not because of the caller.
func overtime(ctx context.Context) bool { return context.Cause(ctx) == errTime }

// inTime replaces err by a refusal for the agent if the tool's timeout has passed.
func inTime(ctx context.Context, err error) error {
	if err == nil || !overtime(ctx) {
		return err
	}
	return &refusal{"It was not done in time. Ask for less, or with a longer timeout."}
}

// asResult converts an error that the agent can correct to a result.
func asResult(err error) (api.ToolResult, error) {
	if no, ok := errors.AsType[*refusal](err); ok {
		return failed(no.text), nil
	}
	e, ok := errors.AsType[*fault.Error](err)
	if ok && slices.Contains(agentCodes, e.Code) {
		return failed(explain(e)), nil
	}
	return api.ToolResult{}, guestError(err)
}

// explain returns the text of an error with its code and hint.
func explain(e *fault.Error) string {
	hint := cmp.Or(e.Hint, e.Code.Info().Hint)
	if e.Code == api.CodePathOutside {
		hint = "Use a path below " + guest.Workspace + " or " + guest.Home + "; bash reaches the rest of the sandbox."
	}
	return fmt.Sprintf("%s (%s). %s", e, e.Code, hint)
}

// refusal is an error for the agent. It has only a text, which becomes the result.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// guestError converts an error of the helper to a fault.Error with a code.
func guestError(err error) error {
	code := api.CodeDriverUnreachable
	switch {
	case errors.As(err, new(*fault.Error)), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, guest.ErrGone):
		code = api.CodeNotRunning
	case errors.Is(err, guest.ErrInvalid):
		code = api.CodeInvalidRequest
	}
	return fault.Errorf("run command", code, "%w", err)
}

// said returns a result with this text.
func said(text string) api.ToolResult {
	return api.ToolResult{Content: []api.ToolContent{{Type: api.ContentText, Text: text}}}
}

// failed returns an error result with this text.
func failed(text string) api.ToolResult {
	r := said(fault.Clip(text, maxText))
	r.IsError = true
	return r
}
