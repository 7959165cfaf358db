package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// session shows a terminal of a sandbox on the user's terminal.
type session struct {
	ref     string
	options client.TerminalOptions
	input   bool // send the keyboard's input
	keys    detachKeys

	a        *app
	c        *remote.Connection
	keyboard *ui.Keyboard // nil: no input is sent
	now      atomic.Pointer[client.Terminal]
	left     atomic.Bool // the user has detached
}

// session shows a terminal until it ends or the user detaches. Afterwards it restores the user's terminal in all cases.
func (a *app) session(ctx context.Context, c *remote.Connection, s *session) (api.ExecExit, error) {
	s.a, s.c = a, c
	if s.input && !ui.IsTerminal(a.Stdin) {
		return api.ExecExit{}, ui.Usage("stdin is not a terminal", fmt.Sprintf("'berth exec -i %s -- sh' runs a shell that reads from a pipe or a file.", s.ref))
	}
	s.options.Size = *a.WindowSize()
	terminal, err := c.Sandboxes.Terminal(ctx, s.ref, s.options)
	if err != nil {
		return api.ExecExit{}, err
	}
	s.now.Store(terminal)
	if terminal.Notice != "" {
		a.Notef("berth: note: %s", ui.Clean(terminal.Notice))
	}
	restore, err := s.takeOver()
	if err != nil {
		return api.ExecExit{}, errors.Join(fmt.Errorf("set up the terminal: %w", err), terminal.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := s.follow(ctx)
	err = s.show(ctx)
	cancel()
	_ = s.now.Load().Close() // also ends pending writes
	stop()
	restore(err != nil)
	return s.end(err)
}

// end returns the exit code of the session, and prints how to come back if it still runs.
func (s *session) end(err error) (api.ExecExit, error) {
	id := ui.Clean(s.now.Load().ExecID)
	switch {
	case s.left.Load():
		s.a.Notef("berth: detached; 'berth shell %s --attach %s' comes back to it", ui.Clean(s.ref), id)
		return api.ExecExit{}, nil
	case err != nil:
		return api.ExecExit{}, ui.Hint(fmt.Errorf("the connection was lost: %w", err),
			fmt.Sprintf("What runs in it may go on: 'berth shell %s --attach %s' comes back to it.", s.ref, id))
	}
	return s.now.Load().Wait()
}

// takeOver prepares the user's terminal for the session. restore undoes that; abrupt means that the session did not end
// by itself.
func (s *session) takeOver() (restore func(abrupt bool), err error) {
	cooked := func() {}
	if s.input {
		if s.keyboard, err = ui.NewKeyboard(s.a.Stdin.(*os.File)); err != nil {
			return nil, err
		}
		if cooked, err = ui.Raw(s.keyboard.File); err != nil {
			return nil, err
		}
	}
	return func(abrupt bool) {
		if s.a.Out.TTY {
			if abrupt {
				_, _ = io.WriteString(s.a.Out, "\r\n"+ui.LeaveAltScreen)
			}
			_, _ = io.WriteString(s.a.Out, ui.ResetTerminal)
		}
		cooked()
	}, nil
}

// follow sends keys, terminal sizes and signals to the sandbox until stop is called.
func (s *session) follow(ctx context.Context) (stop func()) {
	sized := make(chan os.Signal, 1)
	signal.Notify(sized, syscall.SIGWINCH)
	signals, giveBack := s.a.Interrupts.Take()
	var typing sync.WaitGroup
	if s.keyboard != nil {
		typing.Go(s.sendKeys)
	}
	go func() {
		for {
			select {
			case <-sized:
				_ = s.now.Load().Resize(*s.a.WindowSize()) // a failed resize does not end the session
			case sig := <-signals:
				s.signalled(ctx, sig)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		giveBack()
		signal.Stop(sized)
		if s.keyboard != nil {
			s.keyboard.Stop(&typing)
		}
	}
}

// signalled detaches from the terminal if this session sends input to it. Otherwise it sends the signal to the command.
func (s *session) signalled(ctx context.Context, sig os.Signal) {
	if s.input {
		s.leave()
		return
	}
	_ = s.c.Sandboxes.Signal(ctx, s.ref, s.now.Load().ExecID, signalNames[sig])
}

func (s *session) leave() {
	s.left.Store(true)
	_ = s.now.Load().Close()
}

// sendKeys sends the keyboard's input to the sandbox.
func (s *session) sendKeys() {
	keys := detector{keys: s.keys}
	buf := make([]byte, 4<<10)
	for {
		n, err := s.keyboard.Read(buf)
		send, left := keys.pass(buf[:n])
		if len(send) > 0 {
			_, _ = s.now.Load().Write(send) // the copy of the output reports a lost connection
		}
		switch {
		case errors.Is(err, ui.ErrStopped):
			return
		case left || err != nil:
			s.leave()
			return
		}
	}
}

// Limits for reconnecting to a terminal after the connection was lost.
const (
	reconnectTries = 10
	reconnectAfter = 500 * time.Millisecond
)

// show copies the terminal's output to stdout until the terminal ends. It reconnects after a lost connection.
func (s *session) show(ctx context.Context) error {
	for {
		_, err := io.Copy(s.a.Stdout, s.now.Load())
		if err == nil || s.left.Load() || ctx.Err() != nil {
			return err
		}
		if err := s.reconnect(ctx); err != nil {
			return err
		}
	}
}

// reconnect reconnects to the terminal.
func (s *session) reconnect(ctx context.Context) error {
	lost := s.now.Load()
	_ = lost.Close()
	fmt.Fprint(s.a.Err, "\r\nberth: the connection was lost; trying to come back …\r\n")
	for tried := 1; ; tried++ {
		terminal, err := s.c.Sandboxes.Terminal(ctx, s.ref, client.TerminalOptions{Size: *s.a.WindowSize(), Attach: lost.ExecID})
		if err == nil {
			s.now.Store(terminal)
			return nil
		}
		if tried == reconnectTries || !remote.Retryable(err) || !s.waitRetry(ctx) {
			return err
		}
	}
}

// waitRetry waits before the next attempt. It reports false if the user detached or the context ended.
func (s *session) waitRetry(ctx context.Context) bool {
	select {
	case <-time.After(reconnectAfter):
		return !s.left.Load()
	case <-ctx.Done():
		return false
	}
}
