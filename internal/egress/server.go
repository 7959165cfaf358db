package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// spareConns is the number of connections above the limit that are accepted, only to answer that there are too many.
const spareConns = 32

// server serves HTTP on a listener inside a sandbox.
type server struct {
	limits  Limits
	journal *journal
	handler http.Handler
	single  bool // each connection carries one request, and the handler can get its head from client.take
}

type clientKey struct{}

// serve serves the listener until ctx ends or the listener fails. It returns once every handler has returned. The end
// of ctx is not an error. If the listener was closed, serve accepts no further connection, and the present ones finish
// their requests.
func (s server) serve(ctx context.Context, ln net.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	inside := limitListener(ln, s.limits.Conns+spareConns, s.single)
	g := &gate{max: s.limits.Conns}
	srv := s.httpServer(serving, g)
	end := func() {
		_ = srv.Close()
		_ = inside.Close()
		inside.closeConns()
	}
	defer context.AfterFunc(serving, end)()
	err := srv.Serve(inside)
	if errors.Is(err, net.ErrClosed) {
		_ = srv.Shutdown(serving) // waits for all requests but tunnels
		g.close()
		err = http.ErrServerClosed
	}
	cancel()
	end()
	g.close()
	// The listener may have accepted another connection while it was being closed.
	inside.closeConns()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s server) httpServer(ctx context.Context, g *gate) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           s.limitRequests(g),
		ReadHeaderTimeout: s.limits.HeaderTimeout,
		IdleTimeout:       min(2*time.Minute, s.limits.Idle),
		MaxHeaderBytes:    s.limits.HeaderBytes,
		Protocols:         &protocols,

		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.journal.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, c)
		},
	}
	srv.SetKeepAlivesEnabled(!s.single)
	return srv
}

// limitRequests limits how many requests are served at once. It answers further requests with a refusal.
func (s server) limitRequests(g *gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.enter(); err != nil {
			full := &refusal{status: http.StatusServiceUnavailable, words: "too many connections out of this sandbox at once.", cause: err.Error()}
			s.journal.refused(r.Context(), full)
			full.answer(w)
			return
		}
		defer g.leave()
		s.handler.ServeHTTP(w, r)
	})
}
