package cli

import (
	"testing"

	"github.com/berthdev/berth/internal/testkit/ptytest"
)

func newTerminal(t testing.TB) *ptytest.Terminal { return ptytest.New(t) }

// at makes the shell sit at the terminal.
func (s *shell) at(m *ptytest.Terminal) *shell {
	c := s.with("TERM", "xterm")
	c.deps.Stdin, c.deps.Stdout, c.deps.Stderr = m.TTY, m.TTY, m.TTY
	return c
}
