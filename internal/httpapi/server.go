package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	headerTime = 10 * time.Second // to send a request's headers in
	idleTime   = 2 * time.Minute  // between two requests of a connection
	sendTime   = 30 * time.Second // to take an answer in, after the longest handler
	cutTime    = time.Second      // for handlers to end once their context has
)

// Server serves a Handler on one address until it is told to stop.
type Server struct {
	Handler *Handler
	// DrainTimeout is how long running requests may finish after Serve's context ends.
	DrainTimeout time.Duration
	// DrainDelay is how long the server goes on accepting after /readyz begins to say so, for load
	// balancers to notice.
	DrainDelay time.Duration

	listener net.Listener
}

// Listen takes the address. An address in use is an error that says what to do.
func (s *Server) Listen(ctx context.Context, addr string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return listenError(addr, err)
	}
	if s.listener, err = limitConnections(ln.(*net.TCPListener), s.Handler.Log); err != nil {
		_ = ln.Close()
	}
	return err
}

// Addr is the address the server listens on, with the port that was chosen if it was asked for 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

func listenError(addr string, err error) error {
	e := sandbox.Errorf("listen", api.CodeInvalidConfig, "cannot listen on %s: %w", addr, err)
	_, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Err = fmt.Errorf("port %s of %s is in use by another program", port, addr)
		e.Hint = fmt.Sprintf("stop the program that has it ('ss -ltnp sport = :%s' names it), or choose another port with --listen (BERTH_LISTEN); port 0 takes a free one", port)
	case errors.Is(err, os.ErrPermission):
		e.Hint = "Ports below 1024 need privileges; choose another with --listen (BERTH_LISTEN)."
	default:
		e.Hint = "Give an address of this machine with --listen (BERTH_LISTEN), such as 127.0.0.1:7070."
	}
	return e
}

// Serve answers requests until ctx ends, then drains: readiness says so first, the listener closes,
// and running requests finish. Those that do not finish in time are cancelled and answered with
// shutting_down, and the error says that there were some.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Handler.servers.Close()
	base, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	srv := s.http(base)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	s.Handler.Drain()
	s.Handler.Log.Info("draining", "timeout", s.DrainTimeout)
	pause(s.DrainDelay, failed)
	return s.drain(srv, cut)
}

func (s *Server) http(base context.Context) *http.Server {
	return &http.Server{
		Handler:     s.Handler,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: markReserved,
		ErrorLog:    slog.NewLogLogger(s.Handler.Log.Handler(), slog.LevelDebug),
		// No ReadTimeout, which would be one for all: limitBody gives bodies their deadline.
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      s.Handler.RequestTimeout + sendTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    serverHeaderBytes,

		DisableGeneralOptionsHandler: true,
	}
}

func pause(d time.Duration, failed <-chan error) {
	select {
	case <-time.After(d):
	case <-failed:
	}
}

func (s *Server) drain(srv *http.Server, cut context.CancelCauseFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	if srv.Shutdown(ctx) == nil {
		return nil
	}
	cut(errShutdown)
	ctx, cancel = context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close()
	}
	return fmt.Errorf("drain requests: some were still running after %v and were cut", s.DrainTimeout)
}
