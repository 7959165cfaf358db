package ports

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/preview"
)

// addPorts adds the routes that forward requests to ports of a sandbox. Requests with any method are forwarded; the
// OpenAPI document has only the route for GET.
func (a *handlers) addPorts(op access.OperationFunc) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		port := op(method, "/{id}/ports/{port}/{rest...}", "port", api.ScopeWrite, "Forward a request to a port of a sandbox",
			append([]api.Code{api.CodePortUnreachable, api.CodeForeignOrigin}, access.ReachProblems...)...)
		port.Description = "Forwards the request, of any method but OPTIONS and with any body, to 127.0.0.1:port inside the sandbox and returns its answer. WebSockets and streams work. " +
			"Berth's key and cookies are not forwarded. Browsers run the answer in a sandbox without an origin; cookies and redirects stay below this path. " +
			"A redirect to this server or, if the request has a key, to another site is removed; the header " + preview.DroppedLocation + " then has the reason. Trailers are removed."
		port.Accepts = []auth.Kind{auth.APIKey} // pages of sandboxes are served here: a browser's session must not act for them
		port.Timeout, port.Raw, port.Hidden = exchange.Unlimited, true, port.Hidden || method != http.MethodGet
		a.ServeRaw(port, "*/*", a.port, rest.InPath("id", "port", "rest"))
		port.Path, port.Hidden = strings.TrimSuffix(port.Path, "/{rest...}"), true
		a.ServeRaw(port, "*/*", a.portRoot)
	}
}

// portRoot redirects to the path with a final slash, so that relative links work.
func (a *handlers) portRoot(w http.ResponseWriter, r *http.Request) {
	if _, err := preview.ParsePort(r.PathValue("port")); err != nil {
		exchange.Fail(w, r, err)
		return
	}
	to := r.URL.EscapedPath() + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
}

// port answers …/ports/{port}/….
func (a *handlers) port(w http.ResponseWriter, r *http.Request) {
	port, err := preview.ParsePort(r.PathValue("port"))
	var h *engine.Handle
	if err == nil {
		h, _, err = a.Handle(r.Context(), r.PathValue("id"))
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	var through http.RoundTripper
	var conn guest.Conn
	at, err := h.Exposed(r.Context(), port)
	if fault.CodeOf(err) == api.CodeUnsupported {
		conn, err = h.Guest(r.Context())
	} else {
		through = exposed(h, port, at)
	}
	if err != nil {
		exchange.Fail(w, r, access.GuestError("reach port", err))
		return
	}
	if conn != nil {
		defer conn.Close()
	}
	defer h.HoldLate(r.Context(), "preview")()
	prefix, _ := middleware.SplitPort(r.URL.EscapedPath())
	r, slow := steady(w, r, a.TransferTimeout)
	preview.Proxy{
		Port: port, Prefix: prefix, Pool: through, Ending: a.Ending, Own: func(host string) bool { return a.isOwnHost(host, r) },
		Dial: func(ctx context.Context) (net.Conn, error) { return conn.Dial(ctx, port) },
		Fail: func(w http.ResponseWriter, r *http.Request, err error) {
			if slow() {
				stream.FailUpload(w, r, stream.ErrSlow, a.TransferTimeout)
				return
			}
			exchange.Fail(w, r, access.GuestError("reach port", err))
		},
	}.ServeHTTP(w, r)
}

// steadyBody is the body of a request to a port. Its sender must keep the minimum rate: a very slow sender would hold
// a connection and the sandbox for ever. The time of the answer is not limited.
type steadyBody struct {
	io.ReadCloser
	conn   *http.ResponseController
	credit stream.RateCredit
	ended  bool
	slow   atomic.Bool // the sender was too slow
}

func (b *steadyBody) Read(p []byte) (int, error) {
	if b.ended {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	_ = b.conn.SetReadDeadline(b.credit.Deadline(began)) // response recorders of tests have no deadlines
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
		_ = b.conn.SetReadDeadline(time.Time{}) // from here on, net/http reads the connection to notice its end
	}
	err = b.credit.Arrived(n, time.Since(began), err)
	b.slow.Store(errors.Is(err, stream.ErrSlow))
	return n, err
}

// steady returns the request with a steadyBody, if it has a body, and a function that reports whether the sender was
// too slow. The error of the proxy cannot show this: net/http takes an expired deadline for a client that has
// disconnected.
func steady(w http.ResponseWriter, r *http.Request, within time.Duration) (*http.Request, func() bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() bool { return false }
	}
	exchange.Of(r.Context()).Body = r.Body
	steady := *r
	body := &steadyBody{ReadCloser: r.Body, conn: http.NewResponseController(w), credit: stream.NewRateCredit(within)}
	steady.Body = body
	return &steady, body.slow.Load
}

// isOwnHost reports whether a URL with this host may lead to this server.
func (a *handlers) isOwnHost(host string, r *http.Request) bool {
	advertised, err := url.Parse(a.AdvertiseURL)
	return a.Hosts.Knows(host, r) || err == nil && advertised.Host != "" && host == middleware.BareHost(advertised.Host)
}
