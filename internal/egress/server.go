package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// spare connections beyond the limit are accepted for as long as it takes to tell them so.
const spare = 32

// server serves HTTP on a listener out of a sandbox.
type server struct {
	limits  Limits
	journal *journal
	handler http.Handler
	single  bool // one request per connection, whose head the handler can take
}

type clientKey struct{}

// serve returns when ctx has ended and every handler has, too; or with the listener's error.
func (s server) serve(ctx context.Context, ln net.Listener) error {
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	inside := bound(ln, s.limits.Conns+spare, s.single)
	g := &gate{max: s.limits.Conns}
	srv := s.http(serving, g)
	end := func() {
		_ = srv.Close()
		_ = inside.Close()
		inside.closeConns()
	}
	defer context.AfterFunc(serving, end)()
	err := srv.Serve(inside)
	cancel()
	end()
	g.close()
	// A connection accepted while the listener closed.
	inside.closeConns()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s server) http(ctx context.Context, g *gate) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           s.gated(g),
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

// gated lets as many requests in as there may be.
func (s server) gated(g *gate) http.Handler {
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
