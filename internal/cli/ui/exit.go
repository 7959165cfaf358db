package ui

import (
	"errors"
	"fmt"
)

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ExitCode is an error that ends Berth with this exit code. Its messages are printed before it is returned.
type ExitCode int

// Errorf prints an error message of a command that exits with another code than ExitBerth.
func (u *UI) Errorf(format string, args ...any) {
	u.Notef("%s %s", u.Err.Paint(Red, "berth:"), fmt.Sprintf(format, args...))
}

// ErrInterrupted is the cause of a context that a signal ended.
var ErrInterrupted = errors.New("interrupted")

// ErrReported is the error of a command that has already printed its failure.
var ErrReported = errors.New("reported")

// The exit codes of Berth itself. The exit code of a command in a sandbox is passed on unchanged.
const (
	ExitOK          = 0
	ExitTimeout     = 124 // the operation took longer than --timeout
	ExitBerth       = 125 // Berth failed; the reason is on stderr
	ExitInterrupted = 130
)

// Warnf prints a warning, also with --quiet. With --json it prints nothing.
func (u *UI) Warnf(format string, args ...any) {
	if !u.JSON {
		u.say(u.Err, u.Err.Paint(Yellow, "berth:")+" "+fmt.Sprintf(format, args...))
	}
}
