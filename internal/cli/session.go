package cli

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
)

// session is a terminal in a sandbox shown on the one at hand.
type session struct {
	ref     string
	options client.TerminalOptions
	input   bool // what is typed here is typed there
	keys    detachKeys

	f        *frame
	c        *connection
	keyboard *keyboard // nil: nothing is typed
	now      atomic.Pointer[client.Terminal]
	left     atomic.Bool // the person has detached
}

// session runs one to its end, or until the person leaves it. The terminal at hand is as it was
// afterwards, whatever happened.
func (f *frame) session(ctx context.Context, c *connection, s *session) (api.ExecExit, error) {
	s.f, s.c = f, c
	if s.input && !isTerminal(f.Stdin) {
		return api.ExecExit{}, &usageError{"stdin is not a terminal", fmt.Sprintf("'berth exec -i %s -- sh' runs a shell that reads from a pipe or a file.", s.ref)}
	}
	s.options.Size = *f.windowSize()
	terminal, err := c.Sandboxes.Terminal(ctx, s.ref, s.options)
	if err != nil {
		return api.ExecExit{}, err
	}
	s.now.Store(terminal)
	restore, err := s.takeOver()
	if err != nil {
		return api.ExecExit{}, errors.Join(fmt.Errorf("set up the terminal: %w", err), terminal.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := s.follow(ctx)
	err = s.show(ctx)
	cancel()
	_ = s.now.Load().Close() // lets go of whoever writes to it, too
	stop()
	restore(err != nil)
	return s.end(err)
}

// end is how the session ended.
func (s *session) end(err error) (api.ExecExit, error) {
	id := clean(s.now.Load().ExecID)
	switch {
	case s.left.Load():
		s.f.notef("berth: detached; 'berth shell %s --attach %s' comes back to it", clean(s.ref), id)
		return api.ExecExit{}, nil
	case err != nil:
		return api.ExecExit{}, &hinted{fmt.Errorf("the connection was lost: %w", err),
			fmt.Sprintf("What runs in it may go on: 'berth shell %s --attach %s' comes back to it.", s.ref, id)}
	}
	return s.now.Load().Wait()
}

// takeOver makes the terminal at hand one for the sandbox.
func (s *session) takeOver() (restore func(abrupt bool), err error) {
	cooked := func() {}
	if s.input {
		if s.keyboard, err = newKeyboard(s.f.Stdin.(*os.File)); err != nil {
			return nil, err
		}
		if cooked, err = raw(s.keyboard.file); err != nil {
			return nil, err
		}
	}
	return func(abrupt bool) {
		if s.f.out.tty {
			if abrupt {
				_, _ = io.WriteString(s.f.out, "\r\n"+mainScreen)
			}
			_, _ = io.WriteString(s.f.out, tidy)
		}
		cooked()
	}, nil
}

// follow passes on what happens here: keys, sizes and signals.
func (s *session) follow(ctx context.Context) (stop func()) {
	sized := make(chan os.Signal, 1)
	signal.Notify(sized, syscall.SIGWINCH)
	signals, giveBack := s.f.interrupts.take()
	var typing sync.WaitGroup
	if s.keyboard != nil {
		typing.Go(s.typeOn)
	}
	go func() {
		for {
			select {
			case <-sized:
				_ = s.now.Load().Resize(*s.f.windowSize()) // an old size is no reason to end
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
			s.keyboard.stop(&typing)
		}
	}
}

// signalled leaves the terminal to itself where its keys come from here; otherwise the signal is for
// what runs in it.
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

// typeOn types there what is typed here.
func (s *session) typeOn() {
	keys := detector{keys: s.keys}
	buf := make([]byte, 4<<10)
	for {
		n, err := s.keyboard.Read(buf)
		send, left := keys.pass(buf[:n])
		if len(send) > 0 {
			_, _ = s.now.Load().Write(send) // the reader finds out why it cannot be
		}
		switch {
		case errors.Is(err, errStopped):
			return
		case left || err != nil:
			s.leave()
			return
		}
	}
}

// Tries to come back to a terminal whose connection was lost.
const (
	returns     = 10
	returnAfter = 500 * time.Millisecond
)

// show shows what the terminal shows until its end. It comes back to it after a lost connection.
func (s *session) show(ctx context.Context) error {
	for {
		_, err := io.Copy(s.f.Stdout, s.now.Load())
		if err == nil || s.left.Load() || ctx.Err() != nil {
			return err
		}
		if err := s.comeBack(ctx); err != nil {
			return err
		}
	}
}

// comeBack connects again. Its error is why it cannot.
func (s *session) comeBack(ctx context.Context) error {
	lost := s.now.Load()
	_ = lost.Close()
	fmt.Fprint(s.f.err, "\r\nberth: the connection was lost; trying to come back …\r\n")
	for tried := 1; ; tried++ {
		terminal, err := s.c.Sandboxes.Terminal(ctx, s.ref, client.TerminalOptions{Size: *s.f.windowSize(), Attach: lost.ExecID})
		if err == nil {
			s.now.Store(terminal)
			return nil
		}
		if tried == returns || !passing(err) || !s.rest(ctx) {
			return err
		}
	}
}

// rest waits a moment, and reports false if the person has no patience for it.
func (s *session) rest(ctx context.Context) bool {
	select {
	case <-time.After(returnAfter):
		return !s.left.Load()
	case <-ctx.Done():
		return false
	}
}
