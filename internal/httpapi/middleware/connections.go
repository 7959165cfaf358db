package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
)

const (
	// reserveShare sets the size of the reserve: 1/reserveShare of the process's file descriptors is kept from
	// ordinary connections, for files, databases and sandboxes.
	reserveShare = 4
	// spareFiles is the number of descriptors that are held open. They are closed for connections when none is left.
	spareFiles = 4
	// silentTime is the time after which a connection in the reserve is closed if it has sent nothing. reservedTime
	// is the time that it has left after its first data.
	silentTime   = time.Second
	reservedTime = 5 * time.Second
	pollTime     = 250 * time.Millisecond // maximum wait for a pending connection
	warnEvery    = time.Minute            // minimum time between two warnings
)

// limitedListener keeps a reserve of file descriptors from ordinary connections, so that health checks are answered
// when descriptors run out. The kernel gives a new connection the lowest free number, so the number shows how many
// descriptors the whole process uses. A connection with a number in the reserve is a [reservedConn].
type limitedListener struct {
	*net.TCPListener
	limit, ordinary uint64 // descriptors from ordinary up are the reserve
	log             *slog.Logger

	mu     sync.Mutex
	spares []*os.File
	warned time.Time
}

// LimitConnections wraps the listener with a limit from the process's limit of open files. The Go runtime has already
// raised the soft limit to the hard limit.
func LimitConnections(ln *net.TCPListener, log *slog.Logger) (*limitedListener, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	l := &limitedListener{TCPListener: ln, limit: files.Cur, ordinary: files.Cur - files.Cur/reserveShare, log: log}
	l.refill()
	return l, nil
}

// Accept returns the next connection, a reservedConn if descriptors run out.
func (l *limitedListener) Accept() (net.Conn, error) {
	l.refill()
	conn, err := l.AcceptTCP()
	for outOfFiles(err) && l.giveUpSpare() { // another part of the process may take it first
		conn, err = l.AcceptTCP()
	}
	if err != nil {
		return nil, err
	}
	if descriptor(conn) < l.ordinary {
		return conn, nil
	}
	return l.reserve(conn), nil
}

// giveUpSpare closes a spare descriptor if a connection is waiting, and reports whether it did. Without a waiting
// connection, another part of the process would take the descriptor.
func (l *limitedListener) giveUpSpare() bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	err = raw.Control(func(fd uintptr) {
		waiting, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(pollTime.Milliseconds()))
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.spares)
	if err != nil || waiting <= 0 || n == 0 {
		return false
	}
	_ = l.spares[n-1].Close()
	l.spares = l.spares[:n-1]
	return true
}

// refill opens missing spare descriptors, as long as any are free.
func (l *limitedListener) refill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.spares) < spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		l.spares = append(l.spares, f)
	}
}

// Close closes the listener and the spare descriptors.
func (l *limitedListener) Close() error {
	l.mu.Lock()
	for _, f := range l.spares {
		_ = f.Close()
	}
	l.spares = nil
	l.mu.Unlock()
	return l.TCPListener.Close()
}

func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// descriptor returns the connection's file descriptor, or the largest number if it is not known.
func descriptor(conn *net.TCPConn) (n uint64) {
	n = math.MaxUint64
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = uint64(fd) })
	}
	return n
}

// reservedConn is a connection that only health checks may use, for a short time.
type reservedConn struct {
	net.Conn
	spoke, closed sync.Once
	late          *time.Timer // closes the connection
	release       func()
}

func (l *limitedListener) reserve(conn net.Conn) *reservedConn {
	c := &reservedConn{Conn: conn, release: l.refill}
	c.late = time.AfterFunc(silentTime, func() { _ = c.Close() })
	l.warn()
	return c
}

// Read reads from the client. After the first data, the connection has reservedTime left.
func (c *reservedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.spoke.Do(func() { c.late.Reset(reservedTime) })
	}
	return n, err
}

// Close closes the connection and gives its descriptor back to the reserve.
func (c *reservedConn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() {
		c.late.Stop()
		c.release()
	})
	return err
}

func (l *limitedListener) warn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.warned) < warnEvery {
		return
	}
	l.warned = time.Now()
	l.log.Warn("file descriptors run out: new connections get health checks only; raise the limit of open files (ulimit -n, or LimitNOFILE in systemd)", "limit", l.limit)
}

type reservedKey struct{}

// MarkReserved is the ConnContext of the server. It marks the context of a connection in the reserve.
func MarkReserved(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if _, ok := conn.(*reservedConn); ok {
		return context.WithValue(ctx, reservedKey{}, true)
	}
	return ctx
}

func isReserved(ctx context.Context) bool { return ctx.Value(reservedKey{}) != nil }

// HealthOnly answers only health checks on a connection in the reserve, and closes it after one request.
func HealthOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isReserved(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		if !exchange.Of(r.Context()).Route.Health {
			exchange.Fail(w, r, fault.Errorf("", api.CodeTooManyConns, "the server has almost no file descriptors left, and answers health checks only on new connections"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ConnectionCheck returns a warning for /readyz if the request uses a connection in the reserve.
func ConnectionCheck(ctx context.Context) []api.Check {
	if !isReserved(ctx) {
		return nil
	}
	return []api.Check{{
		Name: "connections", Status: "warning", Detail: "the file descriptors of the server run out; new connections get health checks only",
		Fix: "Raise the limit of open files (ulimit -n, or LimitNOFILE in systemd), or add a server.",
	}}
}
