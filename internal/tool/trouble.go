package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// theAgents are the codes of what an agent can do something about: it asked for a file that is not there,
// or filled its disk. They are results. All others are Berth's or the caller's own.
var theAgents = []api.Code{
	api.CodeInvalidPath, api.CodePathOutside, api.CodeFileNotFound, api.CodeFileExists, api.CodeFileDenied,
	api.CodeIsADirectory, api.CodeNotADirectory, api.CodeSpecialFile, api.CodeDiskFull, api.CodeConflict, api.CodeTooLarge,
}

// errTime is the cause of a context whose tool took too long.
var errTime = errors.New("the tool's time is over")

// within bounds the work of a tool on files.
func (j *job) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, min(cmp.Or(j.timeout, FileTime), MaxFileTime), errTime)
}

// overtime reports whether the tool's own time is over, not that of whoever asked.
func overtime(ctx context.Context) bool { return context.Cause(ctx) == errTime }

// inTime puts the end of a tool's own time into words that an agent can use.
func inTime(ctx context.Context, err error) error {
	if err == nil || !overtime(ctx) {
		return err
	}
	return &refusal{"It was not done in time. Ask for less, or with a longer timeout."}
}

// asResult turns an error into a result where that is what it is.
func asResult(err error) (api.ToolResult, error) {
	if no, ok := errors.AsType[*refusal](err); ok {
		return failed(no.text), nil
	}
	e, ok := errors.AsType[*sandbox.Error](err)
	if ok && slices.Contains(theAgents, e.Code) {
		return failed(explain(e)), nil
	}
	return api.ToolResult{}, guestError(err)
}

// explain is an error with its code and what to do.
func explain(e *sandbox.Error) string {
	hint := cmp.Or(e.Hint, e.Code.Info().Hint)
	if e.Code == api.CodePathOutside {
		hint = "Use a path below " + guest.Workspace + " or " + guest.Home + "; bash reaches the rest of the sandbox."
	}
	return fmt.Sprintf("%s (%s). %s", e, e.Code, hint)
}

// refusal is an error that is all said by its text.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// guestError puts a helper's words into the table's.
func guestError(err error) error {
	code := api.CodeDriverUnreachable
	switch {
	case errors.As(err, new(*sandbox.Error)), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, guest.ErrGone):
		code = api.CodeNotRunning
	case errors.Is(err, guest.ErrInvalid):
		code = api.CodeInvalidRequest
	}
	return sandbox.Errorf("run command", code, "%w", err)
}

// said is a result of text.
func said(text string) api.ToolResult {
	return api.ToolResult{Content: []api.ToolContent{{Type: api.ContentText, Text: text}}}
}

// failed is a result of text that says why it could not be done.
func failed(text string) api.ToolResult {
	r := said(clip(text, maxText))
	r.IsError = true
	return r
}
