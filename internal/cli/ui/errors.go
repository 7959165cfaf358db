package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/fault"
)

// UsageError is the error of an invalid command line.
type UsageError struct{ what, Hint string }

func (e *UsageError) Error() string { return e.what }

// Usage returns a UsageError.
func Usage(what, hint string) error { return &UsageError{what, hint} }

// Usagef returns a UsageError that refers to the help of the command.
func Usagef(cmd *cobra.Command, format string, args ...any) *UsageError {
	return &UsageError{what: fmt.Sprintf(format, args...), Hint: "'" + cmd.CommandPath() + " --help' shows its usage."}
}

// Hinted is an error with a next step.
type Hinted struct {
	error
	hint string
}

// Hint adds a next step to an error.
func Hint(err error, hint string) error { return &Hinted{err, hint} }

// Unwrap returns the error without the hint.
func (h *Hinted) Unwrap() error { return h.error }

// Fail prints an error with its cause, its hint and the request id: as a problem document with --json, otherwise as
// text.
func (u *UI) Fail(err error) {
	p := problemOf(err)
	if u.JSON {
		_ = WriteJSON(u.Err, p)
		return
	}
	u.say(u.Err, u.Err.Paint(Red, "berth:")+" "+CleanLines(p.Detail))
	for _, field := range p.Errors {
		text := strings.TrimPrefix(field.Location+": "+field.Message, ": ")
		if !strings.Contains(p.Detail, text) {
			u.say(u.Err, "  "+Clean(text))
		}
	}
	if p.Hint != "" {
		u.say(u.Err, "  hint: "+Clean(p.Hint))
	}
	if p.RequestID != "" {
		u.say(u.Err, "  request id: "+Clean(p.RequestID))
	}
}

// problemOf converts an error to the problem document that --json prints.
func problemOf(err error) *api.Problem {
	p := problemFor(err)
	var h *Hinted
	if errors.As(err, &h) {
		p.Hint = h.hint
	}
	return p
}

func problemFor(err error) *api.Problem {
	var (
		usage  *UsageError
		remote *api.Problem
		ours   *fault.Error
		conf   *config.Error
	)
	switch {
	case errors.As(err, &usage):
		p := api.NewProblem(api.CodeInvalidRequest, usage.what)
		p.Hint = usage.Hint
		return p
	case errors.As(err, &remote):
		return remoteProblem(err, remote)
	case errors.As(err, &ours):
		p := api.NewProblem(ours.Code, err.Error())
		p.Retryable = ours.Retry
		if ours.Hint != "" {
			p.Hint = ours.Hint
		}
		return p
	case errors.As(err, &conf):
		return api.NewProblem(api.CodeInvalidConfig, err.Error())
	}
	p := api.NewProblem(api.CodeInternal, err.Error())
	p.Hint = systemHint(err)
	return p
}

// remoteProblem returns the server's problem. Its detail begins with the operation in err, if there is one.
func remoteProblem(err error, remote *api.Problem) *api.Problem {
	p := *remote
	if p.Detail == "" {
		p.Detail = p.Title
	}
	if op, _, ok := strings.Cut(err.Error(), ": "+remote.Error()); ok {
		p.Detail = op + ": " + p.Detail
	}
	return &p
}

// systemHint returns a next step for errors of the operating system.
func systemHint(err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return "The file system is read-only: choose a writable place with --data-dir (BERTH_DATA_DIR)."
	case errors.Is(err, syscall.ENOSPC):
		return "The disk is full: free some space, or choose another place with --data-dir (BERTH_DATA_DIR)."
	case errors.Is(err, fs.ErrPermission):
		return "Run as a user that may do this, or choose another place."
	}
	return ""
}
