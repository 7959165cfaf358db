package egress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/berthdev/berth/internal/fault"
)

// Proxy is an HTTP proxy for one sandbox: CONNECT, and plain HTTP with a whole URL. Each connection
// carries one request. The zero value allows no connection.
type Proxy struct {
	Sandbox string // id for the log
	Rules   Rules

	Resolver Resolver // nil: the machine's resolver
	Dial     DialFunc // nil: a dialer that checks each address
	Log      *slog.Logger
	Meter    Meter // counts the bytes; may be nil
	Limits   Limits

	// AllowPrivate lists addresses that are not public and still allowed, if the rules allow the name. It is
	// for operators and tests; templates cannot set it.
	AllowPrivate []netip.Prefix

	inForce *inForce // nil: Rules, which then do not change
}

// succeed implements way. Changed rules apply at once, also to connections.
func (p *Proxy) succeed(next way) succession {
	n, ok := next.(*Proxy)
	switch {
	case !ok || !slices.Equal(n.AllowPrivate, p.AllowPrivate):
		return cut
	case n.Limits != p.Limits:
		p.inForce.change(n.Rules)
		n.inForce = p.inForce // later changes are for both
		return drain
	}
	p.inForce.change(n.Rules)
	return keep
}

// Serve serves connections of the listener until ctx ends. Then it closes the listener and every connection, waits
// for their handlers and returns nil. If the listener is closed before, Serve returns nil when the present connections
// have ended. Several servers may serve copies of one listener.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	dialling, cancel := context.WithCancel(ctx)
	defer cancel()
	limits := p.Limits.orDefault()
	h := &handler{dialer: p.dialer(dialling, limits), journal: newJournal(p.Log, p.Sandbox), limits: limits}
	h.forward = h.forwarder()
	defer h.forward.Transport.(*http.Transport).CloseIdleConnections()
	return server{limits: limits, journal: h.journal, handler: h, single: true}.serve(ctx, ln)
}

func (p *Proxy) dialer(ctx context.Context, limits Limits) *dialer {
	d := &dialer{
		ctx:      ctx,
		rules:    p.inForce,
		guard:    guard{allow: p.AllowPrivate, own: ownAddresses},
		resolver: p.Resolver,
		dial:     p.Dial,
		meter:    p.Meter,
		timeout:  limits.DialTimeout,
	}
	if d.rules == nil {
		d.rules = newInForce(p.Rules)
	}
	if d.resolver == nil {
		d.resolver = absolute{&net.Resolver{PreferGo: true}}
	}
	if d.dial == nil {
		d.dial = guarded(d.guard)
	}
	return d
}

// handler serves the requests of one listener.
type handler struct {
	dialer  *dialer
	journal *journal
	limits  Limits
	forward *httputil.ReverseProxy
}

// ServeHTTP serves one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		h.refuse(w, r, err)
	}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) *refusal {
	c := r.Context().Value(clientKey{}).(*client)
	hostHeader, err := checkHead(r, c.take())
	if err != nil {
		return err
	}
	if r.Method == http.MethodConnect {
		t, err := connectTarget(r)
		if err != nil {
			return err
		}
		return h.allowed(r, t, func(r *http.Request) *refusal { return h.connect(w, r, t) })
	}
	t, err := plainTarget(r, hostHeader)
	if err != nil {
		return err
	}
	return h.allowed(r, t, func(r *http.Request) *refusal {
		h.forwardPlain(w, r, c, t)
		return nil
	})
}

// allowed serves a request if the rules allow its target. The context of the served request ends when the rules change
// and no longer allow it.
func (h *handler) allowed(r *http.Request, t target, serve func(*http.Request) *refusal) *refusal {
	ctx, done, ok := h.dialer.rules.begin(r.Context(), t)
	if !ok {
		return notAllowed(t)
	}
	defer done()
	return serve(r.WithContext(ctx))
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err *refusal) {
	if r.Context().Err() == nil { // otherwise the client has gone away, which caused the error
		h.journal.refused(r.Context(), err)
	}
	err.answer(w)
}

// quote clips and escapes text from a sandbox, so that a message can contain it.
func quote(text string) string { return strconv.QuoteToASCII(fault.Clip(text, maxLogged)) }

// established is the answer to CONNECT. The bytes of the tunnel follow it.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect serves a CONNECT request: it connects to the target and copies bytes in both directions.
func (h *handler) connect(w http.ResponseWriter, r *http.Request, t target) *refusal {
	outside, err := h.dialer.connect(r.Context(), t)
	if err != nil {
		return asRefusal(t, err)
	}
	inside, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = outside.Close()
		return asRefusal(t, err)
	}
	_ = inside.SetDeadline(time.Time{})
	// A client may send data for the tunnel before it gets the answer.
	early, _ := buf.Reader.Peek(buf.Reader.Buffered())
	if _, err := inside.Write([]byte(established)); err != nil {
		_ = inside.Close()
		_ = outside.Close()
		return nil
	}
	// After Hijack, the end of the client's connection does not end the request's context. The tunnel notices that end
	// by itself. The context ends with the server, or when the rules change and do not allow the target.
	tunnel(r.Context(), inside, early, outside, h.limits.Idle)
	return nil
}
