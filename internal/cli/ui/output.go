package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/berthdev/berth/internal/cli/screen"
)

// SafeWriter returns a writer for the output of a sandbox. At a terminal it escapes unsafe characters.
func SafeWriter(s Stream) (io.Writer, func() error) {
	if !s.TTY {
		return s.Writer, func() error { return nil }
	}
	w := screen.NewWriter(s.Writer)
	return w, w.Close
}

// MaxCollected is the maximum size of each output in one JSON document, in bytes.
const MaxCollected = 8 << 20

// Head keeps the first MaxCollected bytes of its input.
type Head struct {
	bytes.Buffer
	Truncated bool
}

// Write keeps as much of p as fits. It always returns len(p).
func (b *Head) Write(p []byte) (int, error) {
	fits := min(len(p), MaxCollected-b.Len())
	b.Truncated = b.Truncated || fits < len(p)
	_, _ = b.Buffer.Write(p[:fits])
	return len(p), nil
}

// Notef prints a line to stderr that is not part of the result. With --json or --quiet it prints nothing.
func (u *UI) Notef(format string, args ...any) {
	if !u.JSON && !u.Quiet {
		u.say(u.Err, fmt.Sprintf(format, args...))
	}
}

// say prints lines. At a terminal a line that is too wide continues below with the same indentation. Words stay whole,
// so that ids, paths and addresses can be copied.
func (u *UI) say(s Stream, text string) {
	fmt.Fprintln(s, u.fitted(s, text))
}

func (u *UI) fitted(s Stream, text string) string {
	if !s.TTY {
		return text
	}
	most := u.WindowSize().Cols
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wrapWords(line, most)
	}
	return strings.Join(lines, "\n")
}

// Line prints one word as the whole result.
func (u *UI) Line(word string) error {
	_, err := fmt.Fprintln(u.Out, Clean(word))
	return err
}

// NoteServerContinues prints after an interrupt that the server may continue. look is the command that shows the
// progress.
func (u *UI) NoteServerContinues(look string) {
	u.Notef("berth: interrupted; the server may go on with it: '%s' shows how far it is", Clean(look))
}

// Printf prints a line of the result. With --json it prints nothing.
func (u *UI) Printf(format string, args ...any) {
	if !u.JSON {
		u.say(u.Out, fmt.Sprintf(format, args...))
	}
}
