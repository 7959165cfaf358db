package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sys/unix"
)

// execution is one command of one request.
type execution struct {
	h       Handle
	sandbox sandbox.Sandbox
	want    api.Exec

	id      string    // empty: it ends with its request
	own     bool      // nobody else can have chosen the id
	again   bool      // the request may have been sent before, so that it runs already
	started time.Time // zero: not known
	feeding func()    // stops giving it its input
	dropped int64     // bytes that its stream lacks
}

// ended is called when the command is seen to have ended.
func (e *execution) ended() {
	if e.feeding != nil {
		e.feeding()
	}
}

// start starts the command under its id and sees to its input. The helper ends it at the limit, whatever
// becomes of this server; zero is none.
func (e *execution) start(ctx context.Context, limit time.Duration) error {
	conn, err := e.begin(ctx, limit)
	if err != nil {
		return err
	}
	e.feed(ctx, conn, limit)
	return nil
}

// begin starts the command under its id, or finds that it was started by an earlier attempt.
func (e *execution) begin(ctx context.Context, limit time.Duration) (guest.Conn, error) {
	conn, err := e.h.Guest(ctx)
	if err != nil {
		return nil, err
	}
	cmd := e.h.Command(e.sandbox, commandOf(e.want))
	cmd.Timeout, cmd.Follow = limit, true
	e.started = time.Now()
	err = conn.Start(ctx, e.id, cmd)
	if e.again && errors.Is(err, guest.ErrExists) {
		err = e.join(ctx, conn, cmd)
	}
	if err != nil {
		_ = conn.Close()
		return nil, e.taken(err)
	}
	return conn, nil
}

// taken names the id that another command has.
func (e *execution) taken(err error) error {
	if errors.Is(err, guest.ErrExists) {
		return sandbox.Errorf("run command", api.CodeExecExists, "a command was started under the id %s before", e.id)
	}
	return err
}

// join finds that an earlier attempt at the same request has started the command. Under an id that the
// caller chose it might be another one. Of a command from an earlier life of the instance the helper knows
// nothing; what it left is in its spool.
func (e *execution) join(ctx context.Context, conn guest.Conn, cmd guest.Cmd) error {
	status, err := conn.Process(e.id).Status(ctx)
	switch {
	case errors.Is(err, guest.ErrNoProcess):
		status = guest.Status{}
	case err != nil:
		return err
	case !e.own && !slices.Equal(status.Argv, cmd.Argv):
		return guest.ErrExists
	}
	e.started, e.want.Stdin, e.want.StdinBase64 = status.StartedAt, "", nil
	return nil
}

// feed gives a started command its input, also when nobody watches it any more. It takes the connection,
// and lets go of it when the input is taken, or can be of no more use.
func (e *execution) feed(ctx context.Context, conn guest.Conn, limit time.Duration) {
	input := inputOf(e.want)
	if len(input) == 0 {
		_ = conn.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	e.feeding = cancel
	closes := !e.want.OpenStdin && e.want.Terminal == nil
	go func() {
		defer cancel()
		defer conn.Close()
		// One that ends without reading it is no error.
		process := conn.Process(e.id)
		if _, err := process.Write(ctx, input); err == nil && closes {
			_ = process.CloseInput(ctx)
		}
	}()
}

// exitOut is how a process that was started then ended, as the wire has it. A zero start is not known.
func exitOut(exit guest.Exit, started time.Time) api.ExecExit {
	out := api.ExecExit{ExitCode: exit.Code, Reason: exit.Reason, Lost: exit.Lost}
	if exit.Signal != 0 {
		out.Signal = strings.TrimPrefix(unix.SignalName(exit.Signal), "SIG")
	}
	if exit.Lost {
		out.ExitCode, out.Signal = -1, ""
	}
	if !started.IsZero() && !exit.At.IsZero() {
		out.DurationMS = max(exit.At.Sub(started).Milliseconds(), 0)
	}
	return out
}

func killedAfter(limit time.Duration) string { return fmt.Sprintf("killed after %v", limit) }

// readerOf is the input as a reader; none is nil.
func readerOf(input []byte) io.Reader {
	if len(input) == 0 {
		return nil
	}
	return bytes.NewReader(input)
}
