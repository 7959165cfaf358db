package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
)

// forwarding is what one run of forward does.
type forwarding struct {
	ref       string
	port      uint16
	local     uint16 // zero: a free port
	localSame bool   // local is the port of the sandbox, because none was given
}

func (a *app) forward() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forward ID|NAME PORT[:LOCAL]",
		Short: "Forward a local port to a port of a sandbox",
		Long: `Listen on 127.0.0.1 and forward each connection to a port of a sandbox, for any protocol: databases, debuggers,
SSH. LOCAL is the port on this machine; without it the same number is used, or a free one if that is taken.
A stopped sandbox is started by the first connection. Ctrl-C ends it.`,
		Example:           "  berth forward scratch 5432\n  berth forward scratch 5432:15432\n  berth forward scratch 9229:0",
		Args:              ui.Args(2, 2, "the ID or NAME of one sandbox and PORT[:LOCAL]"),
		ValidArgsFunction: a.CompleteSandboxes(1),
		PreRunE:           a.ResolveSandboxes(1),
		RunE: ui.Run(func(ctx context.Context, args []string) error {
			f, err := parseForward(args[0], args[1])
			if err != nil {
				return err
			}
			return a.runForward(ctx, f)
		}),
	}
	return a.Online(cmd)
}

func parseForward(ref, text string) (f forwarding, err error) {
	f.ref = ref
	port, local, given := strings.Cut(text, ":")
	if f.port, err = parsePort(port); err != nil {
		return f, err
	}
	if !given {
		f.local, f.localSame = f.port, true
		return f, nil
	}
	n, err := strconv.ParseUint(local, 10, 16)
	if err != nil {
		return f, ui.Usage(fmt.Sprintf("%q is not a port of this machine", ui.Clean(local)), "Write PORT:LOCAL, such as 5432:15432; with LOCAL 0 a free one is used.")
	}
	f.local = uint16(n)
	return f, nil
}

func (f forwarding) listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.local))))
	if err != nil && f.localSame {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("listen on this machine: %w", err), "Choose another port: PORT:LOCAL, or PORT:0 for a free one.")
	}
	return ln, nil
}

func (a *app) runForward(ctx context.Context, f forwarding) error {
	c, err := a.Connect()
	if err == nil {
		_, err = c.Sandboxes.Get(ctx, f.ref)
	}
	if err != nil {
		return c.ExistingHint(ctx, f.ref, err)
	}
	ln, err := f.listen()
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintf(a.Out, "%s -> port %d of %s\n", ln.Addr(), f.port, ui.Clean(f.ref)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		open.Go(func() {
			if err := forwardOne(ctx, c, f, conn.(*net.TCPConn)); err != nil && ctx.Err() == nil {
				a.Notef("berth: %s", ui.Clean(err.Error()))
			}
		})
	}
}

// forwardOne connects one local connection with the port, until both directions have ended.
func forwardOne(ctx context.Context, c *remote.Connection, f forwarding, local *net.TCPConn) error {
	defer local.Close()
	inside, err := c.Sandboxes.DialPort(ctx, f.ref, f.port)
	if err != nil {
		return err
	}
	defer inside.Close()
	defer context.AfterFunc(ctx, func() { _ = inside.Close(); _ = local.Close() })()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(inside, local)
		sent <- errors.Join(err, inside.CloseWrite())
	}()
	if _, err := io.Copy(local, inside); err != nil {
		return err
	}
	_ = local.CloseWrite() // the local program may have gone
	<-sent                 // its errors mean that one side has gone
	return nil
}
