package ui

import (
	"os"

	"golang.org/x/term"

	"github.com/berthdev/berth/api"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Raw sets a terminal to raw mode: a read returns each key at once. restore ends that.
func Raw(file *os.File) (restore func(), err error) {
	before, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(file.Fd()), before) }, nil
}

// WindowSize returns the size of the terminal, or 80 by 24 without a terminal.
func (u *UI) WindowSize() *api.TermSize {
	for _, stream := range []any{u.Stdout, u.Stdin, u.Stderr} {
		file, ok := stream.(*os.File)
		if !ok {
			continue
		}
		cols, rows, err := term.GetSize(int(file.Fd()))
		if err == nil && cols > 0 && rows > 0 {
			return &api.TermSize{Cols: cols, Rows: rows}
		}
	}
	return &api.TermSize{Cols: 80, Rows: 24}
}

// ResetTerminal undoes changes that a program may have left: colours, a hidden cursor, mouse and paste reports, keypad
// modes.
const ResetTerminal = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>"

// LeaveAltScreen switches from the alternate screen, which editors use, to the normal one.
const LeaveAltScreen = "\x1b[?1047l"
