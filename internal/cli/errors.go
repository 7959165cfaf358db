package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/config"
	"github.com/berthdev/berth/internal/sandbox"
)

// errReported ends a command whose failure has been told already.
var errReported = errors.New("reported")

// usageError is a command line that cannot be understood.
type usageError struct{ what, hint string }

func (e *usageError) Error() string { return e.what }

func usagef(cmd *cobra.Command, format string, args ...any) *usageError {
	return &usageError{what: fmt.Sprintf(format, args...), hint: "'" + cmd.CommandPath() + " --help' shows how it is used."}
}

// hinted is an error with a next step of its own.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// fail tells what went wrong, why, what to do next and under which id the server knows it: as a
// problem document with --json, else in words.
func (f *frame) fail(err error) {
	p := problemOf(err)
	if f.json {
		_ = writeJSON(f.err, p)
		return
	}
	fmt.Fprintf(f.err, "%s %s\n", f.err.paint(red, "berth:"), cleanLines(p.Detail))
	for _, field := range p.Errors {
		text := strings.TrimPrefix(field.Location+": "+field.Message, ": ")
		if !strings.Contains(p.Detail, text) {
			fmt.Fprintf(f.err, "  %s\n", clean(text))
		}
	}
	if p.Hint != "" {
		fmt.Fprintf(f.err, "  hint: %s\n", clean(p.Hint))
	}
	if p.RequestID != "" {
		fmt.Fprintf(f.err, "  request id: %s\n", clean(p.RequestID))
	}
}

// problemOf says any error as the problem document that --json prints.
func problemOf(err error) *api.Problem {
	p := known(err)
	var h *hinted
	if errors.As(err, &h) {
		p.Hint = h.hint
	}
	return p
}

func known(err error) *api.Problem {
	var (
		usage  *usageError
		remote *api.Problem
		ours   *sandbox.Error
		conf   *config.Error
	)
	switch {
	case errors.As(err, &usage):
		p := api.NewProblem(api.CodeInvalidRequest, usage.what)
		p.Hint = usage.hint
		return p
	case errors.As(err, &remote):
		return told(err, remote)
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

// told is the server's problem with what was being done put before its detail.
func told(err error, remote *api.Problem) *api.Problem {
	p := *remote
	if p.Detail == "" {
		p.Detail = p.Title
	}
	if op, _, ok := strings.Cut(err.Error(), ": "+remote.Error()); ok {
		p.Detail = op + ": " + p.Detail
	}
	return &p
}

// systemHint is the next step for what the operating system refused.
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
