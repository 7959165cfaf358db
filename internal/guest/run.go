package guest

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/guest/wire"
)

// How long Run waits: for descendants that hold an ended command's output, and for the death of one that
// was killed.
const (
	outputGrace = 250 * time.Millisecond
	killGrace   = time.Second
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

// awaitExit waits for the end of a command. When ctx ends it tells the helper to kill it by leaving its
// own half of the connection, and waits a little longer: then the command is gone when Run returns.
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
