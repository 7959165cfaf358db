package execs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
)

// execution is one command of one request.
type execution struct {
	h       *engine.Handle
	sandbox sandbox.Sandbox
	want    api.Exec

	id       string    // empty: the command ends with its request
	own      bool      // the server chose the id
	unseen   bool      // no client reads the output at once
	viewOnly bool      // the client of a terminal may only look
	again    bool      // the request may be a repeat, whose command runs already
	started  time.Time // zero: not known
	feeding  func()    // stops writing the input
	dropped  int64     // number of bytes that its stream lost
}

// ended stops writing the input. It is called when the command has ended.
func (e *execution) ended() {
	if e.feeding != nil {
		e.feeding()
	}
}

// start starts the command under its id and writes its input. The helper kills the command at the limit, even if this
// server has ended; zero: no limit.
func (e *execution) start(ctx context.Context, limit time.Duration) error {
	conn, err := e.begin(ctx, limit)
	if err != nil {
		return err
	}
	e.feed(ctx, conn, limit)
	return nil
}

// begin starts the command under its id. If an earlier attempt has started it, begin joins it.
func (e *execution) begin(ctx context.Context, limit time.Duration) (guest.Conn, error) {
	conn, err := e.h.GuestToRun(ctx)
	if err != nil {
		return nil, err
	}
	cmd, err := e.h.Command(ctx, commandOf(e.want))
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	cmd.Timeout, cmd.Follow = limit, !e.unseen
	e.started = time.Now()
	err = conn.Start(ctx, e.id, cmd)
	if e.again && errors.Is(err, guest.ErrExists) {
		err = e.join(ctx, conn, cmd)
	}
	if err != nil {
		_ = conn.Close()
		return nil, e.explainExists(err)
	}
	return conn, nil
}

// explainExists replaces ErrExists by an error that names the id.
func (e *execution) explainExists(err error) error {
	if errors.Is(err, guest.ErrExists) {
		return fault.Errorf("run command", api.CodeExecExists, "a command was started under the id %s before", e.id)
	}
	return err
}

// join checks that an earlier attempt at the same request has started the command. If the caller chose the id,
// another command may have it. The helper does not know commands from before the instance's last start; join accepts
// them, because their output is in the spool.
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

// feed writes the input of a started command in the background, even if no reader is attached. It closes the
// connection once the input is written or the command has ended.
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
		// A command that ends without reading its input is not an error.
		process := conn.Process(e.id)
		if _, err := process.Write(ctx, input); err == nil && closes {
			_ = process.CloseInput(ctx)
		}
	}()
}

func killedAfter(limit time.Duration) string { return fmt.Sprintf("killed after %v", limit) }

// readerOf returns a reader of the input, or nil if there is no input.
func readerOf(input []byte) io.Reader {
	if len(input) == 0 {
		return nil
	}
	return bytes.NewReader(input)
}
