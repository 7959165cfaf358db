package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
)

// observe writes one log line per request and counts it, also when the handler panics. Neither the
// query nor any header is logged: both may carry secrets.
func observe(metrics *telemetry.Metrics) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start, whole := time.Now(), false
			metrics.RequestsInFlight.Inc()
			defer func() {
				metrics.RequestsInFlight.Dec()
				exchangeOf(r.Context()).record(r, metrics, time.Since(start), whole)
			}()
			next.ServeHTTP(w, r)
			whole = true
		})
	}
}

func (x *exchange) record(r *http.Request, metrics *telemetry.Metrics, took time.Duration, whole bool) {
	status := x.status
	switch {
	case !whole:
		status = http.StatusInternalServerError
	case status == 0:
		status = http.StatusOK
	}
	pattern, level := "", slog.LevelInfo
	if x.route != nil {
		pattern = x.route.Path
		if x.route.Health {
			level = slog.LevelDebug
		}
	}
	metrics.ObserveRequest(pattern, r.Method, status, took)
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", pattern),
		slog.Int("status", status), slog.Int64("bytes", x.bytes), slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.String("remote", r.RemoteAddr),
	}
	if x.principal.KeyID != "" {
		attrs = append(attrs, slog.String(telemetry.FieldTenant, x.principal.Tenant), slog.String("key_id", x.principal.KeyID))
	}
	x.log.LogAttrs(r.Context(), level, "request", attrs...)
}
