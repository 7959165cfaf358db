package guest

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// Dial connects to a port of the instance's loopback.
func (l *Local) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	conn, err := l.dialPort(ctx, &wire.Request{Op: wire.OpDial, Port: port})
	if errors.Is(err, ErrRefused) {
		conn, err = l.dialPort(ctx, &wire.Request{Op: wire.OpDial, Port: port, IPv6: true})
	}
	return conn, err
}

func (l *Local) dialPort(ctx context.Context, r *wire.Request) (net.Conn, error) {
	socket, err := l.file(ctx, r, "socket")
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := connected(ctx, socket); err != nil {
		return nil, err
	}
	return net.FileConn(socket)
}

// file sends a request whose reply has one descriptor, and returns the descriptor as a file with this name.
func (l *Local) file(ctx context.Context, r *wire.Request, name string) (*os.File, error) {
	_, files, err := l.exchange(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		wire.CloseAll(files)
		return nil, errReply
	}
	return os.NewFile(uintptr(files[0]), name), nil
}

// connected waits until the connection that the helper began is made or has failed.
func connected(ctx context.Context, socket *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = socket.SetWriteDeadline(time.Now()) })
	defer stop()
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var outcome int
	err = raw.Write(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(ready, 0); n == 0 {
			return false
		}
		outcome, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return true
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case unix.Errno(outcome) == unix.ECONNREFUSED:
		return ErrRefused
	case outcome != 0:
		return os.NewSyscallError("connect", unix.Errno(outcome))
	}
	return nil
}

// Listen listens on a port of the instance's loopback.
func (l *Local) Listen(ctx context.Context, port uint16) (net.Listener, error) {
	socket, err := l.file(ctx, &wire.Request{Op: wire.OpListen, Port: port}, "listener")
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	return net.FileListener(socket)
}
