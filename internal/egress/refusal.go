package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
)

// refusal is why a request was not served: what the sandbox is told, and what the log is told.
type refusal struct {
	status int
	words  string // for the sandbox; nothing of the machine outside
	target string
	cause  string // for the log only
}

func (r *refusal) Error() string { return r.words }

func badRequest(words string) *refusal {
	return &refusal{status: http.StatusBadRequest, words: words, cause: words}
}

func notAllowed(t target) *refusal {
	return &refusal{
		status: http.StatusForbidden,
		words: fmt.Sprintf("this sandbox may not connect to %s.\nTo allow it, add %q to egress in the sandbox's template.",
			t, t.String()),
		target: t.String(),
		cause:  "no egress rule of the template allows it",
	}
}

func forbiddenAddress(t target, addr netip.Addr, words string) *refusal {
	return &refusal{
		status: http.StatusForbidden,
		words: fmt.Sprintf("this sandbox may not connect to %s: it leads to %s.\n"+
			"Egress reaches public addresses only, whatever the template's egress says; services in the template lead to others.", t, words),
		target: t.String(),
		cause:  fmt.Sprintf("%s is %s", addr, words),
	}
}

func unreachable(t target, err error) *refusal {
	status, words := failure(err)
	return &refusal{status: status, words: fmt.Sprintf("cannot connect to %s: %s.", t, words), target: t.String(), cause: err.Error()}
}

// failure says why a connection could not be made. The error itself may name the machine's resolver or
// its addresses.
func failure(err error) (status int, words string) {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return http.StatusBadGateway, "no such name"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "it does not answer in time"
	case errors.As(err, &dns):
		return http.StatusBadGateway, "its name cannot be resolved now"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return http.StatusBadGateway, "it is unreachable"
	}
	return http.StatusBadGateway, "the connection failed"
}

// answer tells the sandbox.
func (r *refusal) answer(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, "berth: "+r.words+"\n")
}

// journal logs refusals of one sandbox, which could otherwise fill the log at will.
type journal struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time
	written int
	skipped int
}

// A sandbox gets so many lines a minute.
const (
	journalLines  = 30
	journalPeriod = time.Minute
)

func newJournal(log *slog.Logger, sandbox string) *journal {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &journal{log: log.With(slog.String(telemetry.FieldSandboxID, sandbox))}
}

func (j *journal) refused(ctx context.Context, r *refusal) {
	ok, skipped := j.mayWrite(time.Now())
	if !ok {
		return
	}
	level := slog.LevelInfo
	if r.status == http.StatusForbidden {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("target", r.target), slog.Int("status", r.status), slog.String("reason", clip(r.cause))}
	if skipped > 0 {
		attrs = append(attrs, slog.Int("not_logged", skipped))
	}
	j.log.LogAttrs(ctx, level, "egress refused", attrs...)
}

func (j *journal) mayWrite(now time.Time) (ok bool, skipped int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.Sub(j.since) >= journalPeriod {
		skipped = j.skipped
		j.since, j.written, j.skipped = now, 0, 0
	}
	if j.written >= journalLines {
		j.skipped++
		return false, 0
	}
	j.written++
	return true, skipped
}

func clip(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
