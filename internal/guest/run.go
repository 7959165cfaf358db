package guest

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/guest/wire"
)

const (
	// outputGrace is the longest wait for more output after a command ended: its descendants may hold the pipes open.
	outputGrace = 250 * time.Millisecond
	// killGrace is the longest wait for the exit of a command that was killed.
	killGrace = time.Second
)

// Run runs a command to its end.
func (l *Local) Run(ctx context.Context, cmd Cmd, std Stdio) (Exit, error) {
	c, err := command(&cmd)
	if err != nil {
		return Exit{}, err
	}
	owner := l.opts.Owner
	if c.Root {
		owner = l.opts.Root
	}
	streams, err := openStreams(std, owner)
	if err != nil {
		return Exit{}, err
	}
	defer streams.close()
	c.Streams = streams.which
	conn, err := l.connect(ctx)
	if err != nil {
		return Exit{}, err
	}
	defer conn.Close()
	if err := send(conn, &wire.Request{Op: wire.OpRun, Cmd: c}, streams.theirs...); err != nil {
		return Exit{}, err
	}
	streams.start()
	exit, err := awaitExit(ctx, conn)
	streams.finish()
	return exit, err
}

// awaitExit waits for the exit of a command. When ctx ends it closes the writing side of conn, so the helper kills the
// command, and waits up to killGrace for the exit: the command should have ended when Run returns.
func awaitExit(ctx context.Context, conn *wire.Conn) (Exit, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(killGrace))
	})
	defer stop()
	reply, files, err := receive(conn)
	wire.CloseAll(files)
	switch {
	case ctx.Err() != nil:
		return Exit{}, ctx.Err()
	case err != nil:
		return Exit{}, err
	case reply.Exit == nil:
		return Exit{}, errReply
	}
	return exitOf(reply.Exit), nil
}
