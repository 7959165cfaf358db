package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

// watched runs a command and has what it writes shown until it ends.
func (f *frame) watched(ctx context.Context, c *connection, want execution, show func(*watch) (api.ExecExit, error)) (api.ExecExit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	want.OpenStdin = want.interactive
	want.Keep = watchedKeep
	stream, err := c.Sandboxes.ExecStream(ctx, want.ref, want.Exec)
	if err != nil {
		return api.ExecExit{}, err
	}
	w := &watch{f: f, c: c, ref: want.ref, id: stream.ExecID, ctx: ctx, leave: cancel, stream: stream}
	defer w.passSignals()()
	if want.interactive {
		go w.sendInput()
	}
	end, err := show(w)
	if stream.Notice != "" {
		f.notef("berth: note: %s", clean(stream.Notice))
	}
	switch {
	case err == nil:
		if !want.interactive && unread(f.Stdin) {
			f.notef("berth: note: something is waiting on stdin that was not sent; -i sends it")
		}
		return end, nil
	case errors.Is(context.Cause(ctx), errLeft):
		f.notef("berth: left it running: 'berth logs -f %s %s' shows what it writes", clean(w.ref), clean(w.id))
		return end, exited(ExitInterrupted)
	case errors.Is(err, syscall.EPIPE):
		_ = w.signal(syscall.SIGTERM) // nobody reads what it writes any more
		return end, exited(128 + int(syscall.SIGPIPE))
	case context.Cause(ctx) != nil:
		return end, context.Cause(ctx)
	}
	return end, err
}

// watchedKeep is how much of its output may wait for us before the command has to.
const watchedKeep = 256 << 20

// watch is a command in a sandbox that somebody waits for.
type watch struct {
	f       *frame
	c       *connection
	ref, id string
	ctx     context.Context
	leave   context.CancelCauseFunc
	stream  *client.ExecStream
	dropped int64 // bytes of the output that did not come
}

// returnAttempts is how often a server is asked that was there before: one that restarts takes seconds.
const returnAttempts = 12

// Copy copies what the command writes until its end, over as many connections as it takes.
func (w *watch) Copy(stdout, stderr io.Writer) (api.ExecExit, error) {
	for {
		end, err := w.stream.Copy(stdout, stderr)
		w.dropped += w.stream.Dropped()
		if err == nil && w.dropped > 0 {
			w.f.notef("berth: %s of the output were dropped, because nothing was read here for too long; 'berth cp' copies files of any size", size(w.dropped))
		}
		if !passing(err) || w.ctx.Err() != nil {
			return end, err
		}
		w.f.notef("berth: the connection was lost; trying to come back …")
		if err := w.comeBack(); err != nil {
			return end, &hinted{err, fmt.Sprintf("The command may still run: 'berth logs -f %s %s' shows what it writes.", w.ref, w.id)}
		}
	}
}

func (w *watch) comeBack() error {
	patient, err := w.f.connect(client.WithAttempts(returnAttempts))
	if err == nil {
		w.stream, err = patient.Sandboxes.Reattach(w.ctx, w.ref, w.id, w.stream.After())
	}
	return err
}

// errLeft is why a command is no longer waited for.
var errLeft = errors.New("left running")

var signalNames = map[os.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"}

// passSignals hands the first signal to the command and lets go of it at the second. A terminal that is
// closed hangs up, and a pipe that nobody reads is an error of writing, not the end of us: otherwise the
// command would go on for nobody.
func (w *watch) passSignals() (stop func()) {
	signals, giveBack := w.f.interrupts.take()
	others := make(chan os.Signal, 1)
	signal.Notify(others, syscall.SIGHUP, syscall.SIGPIPE)
	done := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		passed := false
		for {
			var sig os.Signal
			select {
			case sig = <-signals:
			case sig = <-others:
			case <-done:
				return
			}
			switch {
			case sig == syscall.SIGPIPE:
			case passed:
				giveBack()
				w.leave(errLeft)
				return
			default:
				passed = true
				busy.Go(func() { w.interrupt(sig) })
			}
		}
	})
	return func() {
		close(done)
		giveBack()
		signal.Stop(others)
		w.leave(nil)
		busy.Wait()
	}
}

// signalPatience is how long a signal may take to arrive, and a command to end by it, before there is
// something to say.
const signalPatience = 2 * time.Second

// interrupt passes a signal on and says so if that does not end the command.
func (w *watch) interrupt(sig os.Signal) {
	if w.signal(sig) != nil {
		return // it has ended, or the second signal lets go of it
	}
	select {
	case <-w.ctx.Done():
	case <-time.After(signalPatience):
		w.f.notef("berth: the command got SIG%s and goes on; the same again leaves it running", signalNames[sig])
	}
}

func (w *watch) signal(sig os.Signal) error {
	ctx, cancel := context.WithTimeout(w.ctx, 5*signalPatience)
	defer cancel()
	return w.c.Sandboxes.Signal(ctx, w.ref, w.id, signalNames[sig])
}

// sendInput hands on what comes in, until its end or the command's.
func (w *watch) sendInput() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.f.Stdin.Read(buf)
		if n > 0 {
			if failed := w.send(buf[:n]); failed != nil {
				w.cut(failed)
				return
			}
		}
		if err != nil {
			w.cut(w.c.Sandboxes.CloseStdin(w.ctx, w.ref, w.id))
			return
		}
	}
}

// send waits for as long as the command does not read.
func (w *watch) send(data []byte) error {
	ctx, cancel := context.WithTimeout(w.ctx, 365*24*time.Hour)
	defer cancel()
	return w.c.Sandboxes.WriteStdin(ctx, w.ref, w.id, data)
}

// cut ends the wait where input was lost on the way. That a command takes no more is its own affair.
func (w *watch) cut(err error) {
	if err == nil || isCode(err, api.CodeConflict) || isCode(err, api.CodeNoSuchExec) {
		return
	}
	w.leave(&hinted{fmt.Errorf("the input did not all arrive: %w", err), fmt.Sprintf("The command may still run: 'berth ps %s' shows it.", w.ref)})
}

// unread says whether something waits in a pipe that we were given and nobody has read.
func unread(input io.Reader) bool {
	file, ok := input.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	n, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCINQ)
	return err == nil && n > 0
}
