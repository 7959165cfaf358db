package exchange

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/telemetry"
)

// Exchange is the state of one request and its answer. It is the response writer of all middlewares and part of the
// request's context. Inner middlewares set fields that outer ones read: for example, the access log reads the route
// and the caller.
type Exchange struct {
	http.ResponseWriter
	Log   *slog.Logger
	Clean func(string) string // removes secrets from a text
	Local bool                // the caller is on this machine

	ID        string
	Request   *http.Request // the request as it arrived
	Body      io.Reader     // the request's body without a size limit
	DropBody  func()        // gives the place of a large body back, once the handler has no reference to it; nil: it is not large
	Route     *Route
	Principal auth.Principal
	Session   *session // nil: the request is not authenticated
	Effect    string   // the id for what this request creates, from its Idempotency-Key; empty: none

	Status    int // 0 until the header is written
	bytes     int64
	Broken    error // the error of the first write that failed: the client has disconnected
	Retryable bool  // the answer is a temporary problem
}

// WriteHeader records the status. Of the informational statuses it records only 101, which ends HTTP on this
// connection.
func (x *Exchange) WriteHeader(status int) {
	if x.Status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.Status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes that were sent. It fails if the session was cut.
func (x *Exchange) Write(b []byte) (int, error) {
	if x.Status == 0 {
		x.Status = http.StatusOK
	}
	if x.Session != nil && x.Session.cut.Load() {
		return 0, errKeyEnded
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	if err != nil && x.Broken == nil {
		x.Broken = err
	}
	return n, err
}

// Hijack takes the connection over from HTTP.
func (x *Exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.Session != nil {
		x.Session.hijacked.Store(true)
	}
	return http.NewResponseController(x.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

type exchangeKey struct{}

// With returns a context with the exchange; see [Of].
func With(ctx context.Context, x *Exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// Of returns the exchange of the request that ctx belongs to. For other contexts it returns an empty exchange, never
// nil.
func Of(ctx context.Context) *Exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*Exchange); ok {
		return x
	}
	return &Exchange{Log: slog.New(slog.DiscardHandler), Clean: func(s string) string { return s }}
}

// EffectID returns the id for the resource that the request creates. With an Idempotency-Key it is the id of the
// claim, so that a second run finds what the first run created; otherwise it is a new id.
func EffectID(ctx context.Context) string {
	if x := Of(ctx); x.Effect != "" {
		return x.Effect
	}
	return NewID()
}

// NewID returns an id that sorts by time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Record logs and counts the request. whole reports that the handler returned; otherwise it panicked.
func (x *Exchange) Record(r *http.Request, metrics *telemetry.Metrics, took time.Duration, whole bool) {
	status := x.Status
	switch {
	case !whole && x.Session != nil && x.Session.ended.Load() && x.Broken == nil: // its key ended, and its connection is closed
		status = cmp.Or(status, http.StatusUnauthorized)
	case !whole:
		status = http.StatusInternalServerError
	case status == 0:
		status = http.StatusOK
	}
	pattern, level := "", slog.LevelInfo
	if x.Route != nil {
		pattern = x.Route.Path
		if x.Route.Health || x.Route.Quiet {
			level = slog.LevelDebug
		}
	}
	metrics.ObserveRequest(pattern, r.Method, status, took)
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", pattern),
		slog.Int("status", status), slog.Int64("bytes", x.bytes), slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.String("remote", r.RemoteAddr),
	}
	if x.Principal.KeyID != "" {
		attrs = append(attrs, slog.String(telemetry.FieldTenant, x.Principal.Tenant), slog.String("key_id", x.Principal.KeyID))
	}
	x.Log.LogAttrs(r.Context(), level, "request", attrs...)
}
