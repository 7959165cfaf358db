// Package ptytest provides pseudo-terminals for tests. [New] opens one.
package ptytest

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

// Terminal is a pseudo-terminal. It records the output that programs write to the TTY.
type Terminal struct {
	t      testing.TB
	TTY    *os.File // the end for the program
	Master *os.File // the end for the person at the terminal
	done   chan struct{}

	mu     sync.Mutex
	screen strings.Builder
}

// New opens a terminal and closes it when the test ends.
func New(t testing.TB) *Terminal {
	t.Helper()
	master, tty, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, TTY: tty, Master: master, done: make(chan struct{})}
	go term.read()
	t.Cleanup(func() { _ = tty.Close(); <-term.done; _ = master.Close() })
	return term
}

// read records the output until the last open TTY is closed.
func (m *Terminal) read() {
	defer close(m.done)
	buf := make([]byte, 4096)
	for {
		n, err := m.Master.Read(buf)
		m.mu.Lock()
		m.screen.Write(buf[:n])
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Text returns the output so far.
func (m *Terminal) Text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.ReplaceAll(m.screen.String(), "\r\n", "\n")
}

// Wait waits until the output contains want. A space in want can be any white space in the output, because
// messages are wrapped.
func (m *Terminal) Wait(want string) {
	m.t.Helper()
	testkit.Eventually(m.t, 30*time.Second, func() error {
		if text := m.Text(); !strings.Contains(text, want) && !strings.Contains(oneLine(text), want) {
			return fmt.Errorf("the screen has no %q:\n%s", want, text)
		}
		return nil
	})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Type sends text to the program as keyboard input.
func (m *Terminal) Type(text string) {
	if _, err := m.Master.WriteString(text); err != nil {
		m.t.Error(err)
	}
}

// Resize changes the size of the window.
func (m *Terminal) Resize(cols, rows uint16) {
	if err := unix.IoctlSetWinsize(int(m.Master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}); err != nil {
		m.t.Error(err)
	}
}

// Open makes a pseudo-terminal.
func Open() (master, tty *os.File, err error) {
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
