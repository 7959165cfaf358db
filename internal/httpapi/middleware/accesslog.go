package middleware

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/telemetry"
)

// Observe writes one log line for each request and counts it, even if the handler panics. It logs neither the query
// nor headers, because both may contain secrets.
func Observe(metrics *telemetry.Metrics) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start, whole := time.Now(), false
			metrics.RequestsInFlight.Inc()
			defer func() {
				metrics.RequestsInFlight.Dec()
				exchange.Of(r.Context()).Record(r, metrics, time.Since(start), whole)
			}()
			next.ServeHTTP(w, r)
			whole = true
		})
	}
}

// RecoverPanic answers a panic with an internal problem and logs it with its stack. If the answer has already begun,
// it closes the connection, so that the client sees that the answer is incomplete.
func RecoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			x := exchange.Of(r.Context())
			switch {
			case p == http.ErrAbortHandler || x.Broken != nil:
				panic(http.ErrAbortHandler) // the client has gone, or must see that the answer is incomplete
			case x.Status != 0:
				logPanic(r, p)
				panic(http.ErrAbortHandler)
			}
			logPanic(r, p)
			exchange.FailWith(w, r, api.CodeInternal, exchange.HiddenDetails[api.CodeInternal])
		}()
		next.ServeHTTP(w, r)
	})
}

func logPanic(r *http.Request, p any) {
	x := exchange.Of(r.Context())
	x.Log.ErrorContext(r.Context(), "request panicked", telemetry.FieldRequestID, x.ID, "method", r.Method,
		"path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

const requestIDHeader = "X-Request-Id"

// Identify sets the id of the request: the caller's id if it is safe in a log line, else a new one. The answer has
// the same id in its header.
func Identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !isValidRequestID(id) {
			id = exchange.NewID()
		}
		exchange.Of(r.Context()).ID = id
		w.Header().Set(requestIDHeader, id)
		ctx := telemetry.With(r.Context(), slog.String(telemetry.FieldRequestID, id))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:"

func isValidRequestID(id string) bool {
	return id != "" && len(id) <= 128 && strings.Trim(id, idAlphabet) == "" // Trim removes all if there are no other characters
}
