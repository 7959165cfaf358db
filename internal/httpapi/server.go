package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
)

const (
	headerTime = 10 * time.Second // time limit for sending the headers of a request
	idleTime   = 2 * time.Minute  // maximum time between two requests of a connection
	sendTime   = 30 * time.Second // time for the client to read an answer, after the longest handler
	cutTime    = time.Second      // time for handlers to end after their context has ended
)

// ServerOptions configure a Server.
type ServerOptions struct {
	// DrainTimeout is the time that running requests have to finish after Serve's context has ended.
	DrainTimeout time.Duration
	// DrainDelay is the time for which the server still accepts connections after /readyz has begun to report the
	// drain, so that load balancers notice it.
	DrainDelay time.Duration
	// Certificate is the server's TLS certificate; nil: plain HTTP.
	Certificate *Certificate
}

// Server serves a Handler on one address until its context ends.
type Server struct {
	handler  *Handler
	o        ServerOptions
	listener net.Listener
}

// NewServer returns a server; see Listen.
func NewServer(h *Handler, o ServerOptions) *Server { return &Server{handler: h, o: o} }

// Listen starts to listen on the address. Its errors have a hint.
func (s *Server) Listen(ctx context.Context, addr string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return listenError(addr, err)
	}
	limited, err := middleware.LimitConnections(ln.(*net.TCPListener), s.handler.Log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	if s.listener = limited; s.o.Certificate != nil {
		s.listener = tls.NewListener(limited, s.o.Certificate.config())
	}
	return nil
}

// URL returns the server's URL for clients on this machine.
func (s *Server) URL() string {
	if s.o.Certificate != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Addr returns the address that the server listens on. If port 0 was requested, it has the chosen port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

func listenError(addr string, err error) error {
	e := fault.Errorf("listen", api.CodeInvalidConfig, "cannot listen on %s: %w", addr, err)
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

// Serve answers requests until ctx ends. Then it drains: /readyz reports it, the listener closes after DrainDelay,
// and running requests finish. Requests that do not finish within DrainTimeout are cancelled and answered with
// shutting_down; Serve then returns an error.
func (s *Server) Serve(ctx context.Context) error {
	defer s.handler.servers.Close()
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
	s.handler.Drain()
	s.handler.Log.Info("draining", "timeout", s.o.DrainTimeout)
	pause(s.o.DrainDelay, failed)
	return s.drain(srv, cut)
}

func (s *Server) http(base context.Context) *http.Server {
	return &http.Server{
		Handler:     s.handler,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: middleware.MarkReserved,
		ErrorLog:    slog.NewLogLogger(s.handler.Log.Handler(), slog.LevelDebug),
		// ReadTimeout is not set: it would be the same for all requests. TimeBody sets the deadline of each body.
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      s.handler.RequestTimeout + sendTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    middleware.ServerHeaderBytes,

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
	ctx, cancel := context.WithTimeout(context.Background(), s.o.DrainTimeout)
	defer cancel()
	if srv.Shutdown(ctx) == nil {
		return nil
	}
	cut(exchange.ErrShutdown)
	ctx, cancel = context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close()
	}
	return fmt.Errorf("drain requests: some were still running after %v and were cut", s.o.DrainTimeout)
}
