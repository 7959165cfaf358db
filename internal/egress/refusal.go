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

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/telemetry"
)

// refusal is the error of a request that was not served, with the answer for the sandbox and the cause for the log.
type refusal struct {
	status int
	words  string // for the sandbox; contains no data of the host
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

// failure describes a connection error for the sandbox. The text of the error itself may name the machine's resolver
// or addresses, so it is not used.
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

// answer sends the refusal to the sandbox.
func (r *refusal) answer(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, "berth: "+r.words+"\n")
}

// journal logs the refusals of one sandbox, up to a limit. Without the limit a sandbox could fill the log.
type journal struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time // begin of the current period
	written int       // lines in the current period
	skipped int       // refusals that were not logged in the current period
}

// Limits of the log of refused requests, for each sandbox.
const (
	journalLines  = 30 // per journalPeriod
	journalPeriod = time.Minute
	maxLogged     = 300 // maximum length of a client's text in a log line, in bytes
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
	attrs := []slog.Attr{slog.String("target", r.target), slog.Int("status", r.status), slog.String("reason", fault.Clip(r.cause, maxLogged))}
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
