package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/internal/guest/wire"
)

// Options describe an instance on this machine.
type Options struct {
	Spools string // the directory of the instance's spools

	// Owner and Root are the host's uids of the instance's agent and root users. Run makes them the owners of
	// its pipes, so that commands can open /dev/stdout. -1: the pipes keep the server's uid.
	Owner, Root int

	// Patience is the longest time a process waits for a reader of its output that makes no progress;
	// zero: 30 s.
	Patience time.Duration
}

// Local is a Conn to the helper of an instance on this machine. Each request makes a new connection. After the
// helper has ended, requests return ErrGone.
type Local struct {
	dir  *os.File
	opts Options
}

var _ Conn = (*Local)(nil)

// Open returns a Local for the helper that listens on the socket named sock in dir. The Local owns dir. Open does not
// connect: use Ping to check that the helper answers.
func Open(dir *os.File, o Options) *Local { return &Local{dir: dir, opts: o} }

// Close closes the directory.
func (l *Local) Close() error { return l.dir.Close() }

// Ping checks that the helper answers.
func (l *Local) Ping(ctx context.Context) error {
	_, err := l.ask(ctx, &wire.Request{Op: wire.OpPing})
	return err
}

// KillAll kills every process in the instance but the helper.
func (l *Local) KillAll(ctx context.Context) error {
	_, err := l.ask(ctx, &wire.Request{Op: wire.OpKillAll})
	return err
}

// PeerPID returns the process id of the helper in the PID namespace of the server.
func (l *Local) PeerPID(ctx context.Context) (int, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	cred, err := unix.GetsockoptUcred(conn.FD(), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Pid), nil
}

// Pidfd returns a descriptor of the helper's process. It becomes readable when the helper has ended.
func (l *Local) Pidfd(ctx context.Context) (*os.File, error) {
	pid, err := l.PeerPID(ctx)
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	f := os.NewFile(uintptr(fd), "helper")
	// If the helper still listens, it had not ended before, and the descriptor is not of another process with its pid.
	if again, err := l.PeerPID(ctx); err != nil || again != pid {
		return nil, errors.Join(ErrGone, err, f.Close())
	}
	return f, nil
}

// errReply is the error of a reply that lacks the data of its request.
var errReply = errors.New("the helper's answer makes no sense")

// connect connects to the helper. It returns ErrGone if no helper listens.
func (l *Local) connect(ctx context.Context) (*wire.Conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := l.dial(ctx, fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return wire.NewConn(fd)
}

func (l *Local) dial(ctx context.Context, fd int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.connectOnce(fd)
		if err != unix.EAGAIN {
			return wrapGone(err)
		}
		// The socket's backlog is full. The poller cannot report when it has room again.
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// connectOnce names the socket by the directory's descriptor: the full path can be too long for a socket address.
func (l *Local) connectOnce(fd int) error {
	raw, err := l.dir.SyscallConn()
	if err != nil {
		return err
	}
	var connected error
	if err := raw.Control(func(dir uintptr) {
		connected = unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", dir)})
	}); err != nil {
		return err
	}
	return connected
}

// wrapGone wraps an error with ErrGone if it means that the helper has ended.
func wrapGone(err error) error {
	for _, errno := range []error{unix.ECONNREFUSED, unix.ENOENT, unix.ECONNRESET, unix.EPIPE, io.EOF} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
	return err
}

// ask sends a request whose reply has no descriptors, and returns the reply.
func (l *Local) ask(ctx context.Context, r *wire.Request) (wire.Reply, error) {
	reply, files, err := l.exchange(ctx, r)
	wire.CloseAll(files)
	return reply, err
}

// exchange sends a request and waits for its reply, or for the end of ctx.
func (l *Local) exchange(ctx context.Context, r *wire.Request) (wire.Reply, []int, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return wire.Reply{}, nil, err
	}
	defer conn.Close()
	if err := send(conn, r); err != nil {
		return wire.Reply{}, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	reply, files, err := receive(conn)
	if err != nil && ctx.Err() != nil {
		return wire.Reply{}, nil, ctx.Err()
	}
	return reply, files, err
}

// buffers hold requests and replies.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, wire.RecvBuffer)
	return &b
}}

func send(conn *wire.Conn, r *wire.Request, files ...int) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	err := conn.Send(r.Append(wire.Packet(*buf)), files...)
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("%w: the command is too long", ErrInvalid)
	}
	return wrapGone(err)
}

func receive(conn *wire.Conn) (wire.Reply, []int, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	body, files, err := conn.Recv(*buf)
	if err != nil {
		return wire.Reply{}, nil, wrapGone(err)
	}
	reply, err := wire.DecodeReply(body)
	if err == nil {
		err = errorOf(&reply)
	}
	if err != nil {
		wire.CloseAll(files)
		return wire.Reply{}, nil, err
	}
	return reply, files, nil
}
