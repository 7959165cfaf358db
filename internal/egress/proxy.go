package egress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"time"
)

// Proxy is an HTTP proxy for one sandbox: CONNECT, and plain HTTP with a whole URL. Each connection
// carries one request. The zero value lets nothing through.
type Proxy struct {
	Sandbox string // named in the log
	Rules   Rules

	Resolver Resolver // nil: the machine's
	Dial     DialFunc // nil: the network
	Log      *slog.Logger
	Meter    Meter // told of what passes; may be nil
	Limits   Limits

	// AllowPrivate are addresses that may be connected to although they are not public, if the rules
	// allow the name. It is for operators and tests; nothing in a template sets it.
	AllowPrivate []netip.Prefix
}

// Serve serves the listener until ctx ends, then ends every connection, waits for what handles them and
// returns nil. The listener is closed. Several servers may serve copies of one listener.
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
		rules:    p.Rules,
		guard:    guard{allow: p.AllowPrivate, own: ownAddresses},
		resolver: p.Resolver,
		dial:     p.Dial,
		meter:    p.Meter,
		timeout:  limits.DialTimeout,
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
		return h.connect(w, r, t)
	}
	t, err := plainTarget(r, hostHeader)
	if err != nil {
		return err
	}
	h.plain(w, r, c, t)
	return nil
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err *refusal) {
	if r.Context().Err() == nil { // otherwise nobody waits for the answer, and the cause is that
		h.journal.refused(r.Context(), err)
	}
	err.answer(w)
}

// quote makes what a sandbox wrote safe to repeat.
func quote(text string) string { return strconv.QuoteToASCII(clip(text)) }

// established is what CONNECT is answered with before the bytes of the tunnel.
const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect serves CONNECT.
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
	// A client may send on without waiting for the answer.
	early, _ := buf.Reader.Peek(buf.Reader.Buffered())
	if _, err := inside.Write([]byte(established)); err != nil {
		_ = inside.Close()
		_ = outside.Close()
		return nil
	}
	// The request's context has lost its connection to the client, and ends with the server all the same.
	tunnel(h.dialer.ctx, inside, early, outside, h.limits.Idle)
	return nil
}
