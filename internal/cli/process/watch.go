package process

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
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// runWatched runs a command and calls show to print its output until it ends.
func (a *app) runWatched(ctx context.Context, c *remote.Connection, want execFlags, show func(*watch) (api.ExecExit, error)) (api.ExecExit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	want.OpenStdin = want.interactive
	want.Keep = outputBuffer
	stream, err := c.Sandboxes.ExecStream(ctx, want.ref, want.Exec)
	if err != nil {
		return api.ExecExit{}, err
	}
	w := &watch{a: a, c: c, ref: want.ref, id: stream.ExecID, ctx: ctx, leave: cancel, stream: stream}
	defer w.passSignals()()
	if want.interactive {
		go w.sendInput()
	}
	end, err := show(w)
	if stream.Notice != "" {
		a.Notef("berth: note: %s", ui.Clean(stream.Notice))
	}
	switch {
	case err == nil:
		if !want.interactive && Unread(a.Stdin) {
			a.Notef("berth: note: something is waiting on stdin that was not sent; -i sends it")
		}
		return end, nil
	case errors.Is(context.Cause(ctx), errLeft):
		a.Notef("berth: left it running: 'berth logs -f %s %s' shows what it writes", ui.Clean(w.ref), ui.Clean(w.id))
		return end, ui.ExitCode(ui.ExitInterrupted)
	case errors.Is(err, syscall.EPIPE):
		_ = w.signal(syscall.SIGTERM) // nothing reads its output any longer
		return end, ui.ExitCode(128 + int(syscall.SIGPIPE))
	case context.Cause(ctx) != nil:
		return end, context.Cause(ctx)
	}
	return end, err
}

// outputBuffer is the number of bytes of output that the server keeps for this client. When that is full, the command
// has to wait.
const outputBuffer = 256 << 20

// watch is a running command in a sandbox.
type watch struct {
	a       *app
	c       *remote.Connection
	ref, id string
	ctx     context.Context
	leave   context.CancelCauseFunc
	stream  *client.ExecStream
	dropped int64 // bytes of output that the server dropped
}

// ReconnectAttempts is the number of requests to reconnect to a server. A restart of the server takes seconds.
const ReconnectAttempts = 12

// Copy copies the output of the command until its end. It reconnects after a lost connection.
func (w *watch) Copy(stdout, stderr io.Writer) (api.ExecExit, error) {
	for {
		end, err := w.stream.Copy(stdout, stderr)
		w.dropped += w.stream.Dropped()
		if err == nil && w.dropped > 0 {
			w.a.Notef("berth: %s of the output were dropped, because nothing was read here for too long; 'berth cp' copies files of any size", ui.Size(w.dropped))
		}
		if !remote.Retryable(err) || w.ctx.Err() != nil {
			return end, err
		}
		w.a.Notef("berth: the connection was lost; trying to come back …")
		if err := w.reconnect(); err != nil {
			return end, ui.Hint(err, fmt.Sprintf("The command may still run: 'berth logs -f %s %s' shows what it writes.", w.ref, w.id))
		}
	}
}

func (w *watch) reconnect() error {
	patient, err := w.a.Connect(client.WithAttempts(ReconnectAttempts))
	if err == nil {
		w.stream, err = patient.Sandboxes.Reattach(w.ctx, w.ref, w.id, w.stream.After())
	}
	return err
}

// errLeft is the cause of a context that ends because the user left the command running.
var errLeft = errors.New("left running")

var signalNames = map[os.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"}

// passSignals sends the first signal to the command and leaves the command running at the second. It also sends SIGHUP,
// which a closed terminal causes, unless SIGHUP is ignored (nohup). It ignores SIGPIPE: the failed write returns an
// error.
func (w *watch) passSignals() (stop func()) {
	signals, giveBack := w.a.Interrupts.Take()
	others := make(chan os.Signal, 1)
	signal.Notify(others, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(others, syscall.SIGHUP)
	}
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

// SignalTimeout is the time for a signal to arrive and to end the command. After it, the user gets a message.
const SignalTimeout = 2 * time.Second

// interrupt sends a signal to the command, and prints a note if the command does not end.
func (w *watch) interrupt(sig os.Signal) {
	if w.signal(sig) != nil {
		return // it has ended, or the second signal lets go of it
	}
	select {
	case <-w.ctx.Done():
	case <-time.After(SignalTimeout):
		w.a.Notef("berth: the command got SIG%s and goes on; the same again leaves it running", signalNames[sig])
	}
}

func (w *watch) signal(sig os.Signal) error {
	ctx, cancel := context.WithTimeout(w.ctx, 5*SignalTimeout)
	defer cancel()
	return w.c.Sandboxes.Signal(ctx, w.ref, w.id, signalNames[sig])
}

// sendInput sends stdin to the command until either ends.
func (w *watch) sendInput() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.a.Stdin.Read(buf)
		if n > 0 {
			if failed := w.send(buf[:n]); failed != nil {
				w.inputFailed(failed)
				return
			}
		}
		if err != nil {
			w.inputFailed(w.c.Sandboxes.CloseStdin(w.ctx, w.ref, w.id))
			return
		}
	}
}

// send writes data to the command's stdin. It waits while the command does not read.
func (w *watch) send(data []byte) error {
	ctx, cancel := context.WithTimeout(w.ctx, 365*24*time.Hour)
	defer cancel()
	return w.c.Sandboxes.WriteStdin(ctx, w.ref, w.id, data)
}

// inputFailed ends berth exec with an error if input was lost. It is no error if the command ended or closed its stdin.
func (w *watch) inputFailed(err error) {
	if err == nil || remote.IsCode(err, api.CodeConflict) || remote.IsCode(err, api.CodeNoSuchExec) {
		return
	}
	w.leave(ui.Hint(fmt.Errorf("the input did not all arrive: %w", err), fmt.Sprintf("The command may still run: 'berth ps %s' shows it.", w.ref)))
}

// Unread reports whether a pipe on stdin holds unread bytes.
func Unread(input io.Reader) bool {
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
