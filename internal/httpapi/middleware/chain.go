package middleware

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// Middleware wraps a handler and handles one concern.
type Middleware func(next http.Handler) http.Handler

// Chain applies the middlewares so that a request meets them in the order they are listed.
func Chain(h http.Handler, all ...Middleware) http.Handler {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] != nil {
			h = all[i](h)
		}
	}
	return h
}

// Guard is a middleware that lets a request pass or refuses it with an error.
func Guard(check func(r *http.Request) error) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := check(r); err != nil {
				exchange.Fail(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// LimitTime sets the deadline of each request: the timeout of its route, or else the server's. Handlers that exceed
// it return the context's error, which becomes the problem timeout.
func LimitTime(most time.Duration) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := most
			switch own := exchange.Of(r.Context()).Route.Timeout; {
			case own == exchange.Unlimited:
				_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // response recorders of tests have no deadlines
				next.ServeHTTP(w, r)
				return
			case own > 0:
				limit = own
			}
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// Begin creates the request's exchange, which all other middlewares use.
func Begin(log *slog.Logger, clean func(string) string) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := &exchange.Exchange{ResponseWriter: w, Log: log, Clean: clean, Local: exchange.LoopbackCaller(r), Request: r}
			next.ServeHTTP(x, r.WithContext(exchange.With(r.Context(), x)))
		})
	}
}
