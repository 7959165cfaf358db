package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/testkit"
)

// terminal is a pseudo-terminal: what a command writes to its tty end appears on the screen.
type terminal struct {
	t      testing.TB
	tty    *os.File
	master *os.File
	done   chan struct{}

	mu     sync.Mutex
	screen strings.Builder
}

func newTerminal(t testing.TB) *terminal {
	t.Helper()
	master, tty, err := openPTY()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, tty: tty, master: master, done: make(chan struct{})}
	go term.read()
	t.Cleanup(func() { _ = tty.Close(); <-term.done; _ = master.Close() })
	return term
}

// read ends when the last tty end is closed.
func (m *terminal) read() {
	defer close(m.done)
	buf := make([]byte, 4096)
	for {
		n, err := m.master.Read(buf)
		m.mu.Lock()
		m.screen.Write(buf[:n])
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (m *terminal) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.ReplaceAll(m.screen.String(), "\r\n", "\n")
}

func (m *terminal) wait(want string) {
	m.t.Helper()
	testkit.Eventually(m.t, 30*time.Second, func() error {
		if text := m.text(); !strings.Contains(text, want) {
			return fmt.Errorf("the screen has no %q:\n%s", want, text)
		}
		return nil
	})
}

func (m *terminal) typed(text string) {
	if _, err := m.master.WriteString(text); err != nil {
		m.t.Error(err)
	}
}

// at makes the shell sit at the terminal.
func (s *shell) at(m *terminal) *shell {
	c := s.with("TERM", "xterm")
	c.deps.Stdin, c.deps.Stdout, c.deps.Stderr = m.tty, m.tty, m.tty
	return c
}

// openPTY makes a pseudo-terminal.
func openPTY() (master, tty *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, tty, err
}
