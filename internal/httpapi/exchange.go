package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/berthdev/berth/internal/auth"
)

// exchange is what is known of one request and its answer. It is the response writer of all
// middlewares and sits in the request's context, where they leave what they find out for the ones
// around them: the access log outside learns the route and the caller that were found inside.
type exchange struct {
	http.ResponseWriter
	log   *slog.Logger
	clean func(string) string // takes secrets out of a text
	local bool                // the caller is on this machine

	id        string
	body      io.Reader // what the client sends, unbounded
	route     *route
	principal auth.Principal
	effect    string // the id that an Idempotency-Key gives to what this request makes

	status    int // 0 until the header is written
	bytes     int64
	broken    error // the first write that failed: the client is gone
	retryable bool  // the answer is a problem that may pass
}

// WriteHeader remembers the status. Informational ones come before the answer and are not it, but for
// the one that ends HTTP on this connection.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts what was sent.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	if err != nil && x.broken == nil {
		x.broken = err
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

type exchangeKey struct{}

// begin starts the exchange that every other middleware relies on.
func begin(log *slog.Logger, clean func(string) string) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := &exchange{ResponseWriter: w, log: log, clean: clean, local: loopbackCaller(r)}
			next.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
		})
	}
}

// exchangeOf returns the exchange of the request that ctx belongs to. Outside of one it returns a
// stand-in, so that callers need not ask.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{log: slog.New(slog.DiscardHandler), clean: func(s string) string { return s }}
}
