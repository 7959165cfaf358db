package ui

import (
	"io"
	"sync"
)

// Stream is an output with the information whether it is a terminal.
type Stream struct {
	io.Writer
	TTY    bool
	colour bool
}

func (u *UI) newStream(w io.Writer) Stream {
	tty := IsTerminal(w)
	return Stream{Writer: w, TTY: tty, colour: tty && u.Getenv("NO_COLOR") == "" && u.Getenv("TERM") != "dumb"}
}

// serialWriter makes writes from several goroutines wait for each other.
type serialWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write waits until no other write runs.
func (s *serialWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// Colour is the parameter of an SGR escape sequence.
type Colour string

// Colours of a terminal.
const (
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
)

// Paint returns the text in a colour, or unchanged if colours are off.
func (s Stream) Paint(c Colour, text string) string {
	if !s.colour || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
