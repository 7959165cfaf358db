package cli

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// stream is an output that knows whether a person is watching it.
type stream struct {
	io.Writer
	tty    bool
	colour bool
}

func (f *frame) stream(w io.Writer) stream {
	tty := isTerminal(w)
	return stream{Writer: w, tty: tty, colour: tty && f.env("NO_COLOR") == "" && f.env("TERM") != "dumb"}
}

// serial lets one write after the other: a command's words and ours may come at once.
type serial struct {
	mu sync.Mutex
	to io.Writer
}

// Write waits for its turn.
func (s *serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// isTerminal asks for the window's size, which only terminals have.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// colour is the number in an SGR escape.
type colour string

const (
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// paint colours the text where colours are wanted.
func (s stream) paint(c colour, text string) string {
	if !s.colour || c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
