package ports

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/preview"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// Origins serves ports of sandboxes at names below the preview domain: {port}-{sandbox id}.{domain}. Each is an origin for
// itself, so that a page works there as on the machine itself and reaches neither the API nor other sandboxes.
type Origins struct {
	*access.Sandboxes
	OriginOptions
	sites *sites
	route *exchange.Route
}

// OriginOptions are the settings and dependencies of Origins.
type OriginOptions struct {
	Domain       string     // the preview domain; empty: no port has an origin
	AdvertiseURL string     // its scheme and port are those of all origins; empty: those of the request
	URLs         *auth.URLs // nil: no URLs are signed
	Keys         middleware.Credential
	Sessions     *exchange.Sessions
	Ending       context.Context
	// RequestTimeout is the maximum time for which a request waits for its sandbox to start.
	RequestTimeout time.Duration
	// TransferTimeout is the maximum time without progress of a body.
	TransferTimeout time.Duration
}

// NewOrigins returns the origins of the sandboxes' ports.
func NewOrigins(box *access.Sandboxes, o OriginOptions) *Origins {
	return &Origins{Sandboxes: box, OriginOptions: o, sites: newSites(), route: &exchange.Route{
		Path: "preview", Name: "preview", Scope: api.ScopeWrite, Accepts: []auth.Kind{auth.SignedURL, auth.APIKey}, Quiet: true,
	}}
}

const (
	tokenName  = middleware.URLToken
	cookieName = "berth_preview" // the cookie that a browser gets for it
	patience   = time.Second     // time for which a page waits for its sandbox before the waiting page is shown
)

// place is a port of a sandbox, as the host of a request names it.
type place struct {
	sandbox string // the stored id
	port    uint16
}

// Serve serves the requests for hosts below the preview domain, and leaves all others to next.
func (a *Origins) Serve(next http.Handler) http.Handler {
	own := middleware.Chain(http.HandlerFunc(a.serve), middleware.HealthOnly, middleware.Guard(middleware.CheckHeaderSize))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Domain == "" || !strings.HasSuffix(middleware.BareHost(r.Host), "."+a.Domain) {
			next.ServeHTTP(w, r)
			return
		}
		exchange.Of(r.Context()).Route = a.route
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // response recorders of tests have no deadlines
		own.ServeHTTP(w, r)
	})
}

// placeOf parses the host of a request.
func (a *Origins) placeOf(host string) (at place, err error) {
	label, _ := strings.CutSuffix(middleware.BareHost(host), "."+a.Domain)
	port, id, _ := strings.Cut(label, "-")
	if public, _, err := sandbox.ParseRef(sandbox.PublicID(id)); err != nil || public == "" {
		return at, fault.Errorf("open preview", api.CodeNotFound, "the host %q names no port of a sandbox", exchange.Clip(host))
	}
	at.sandbox = id
	at.port, err = preview.ParsePort(port)
	return at, err
}

// Origin returns the origin of a port, for the client of a request.
func (a *Origins) Origin(r *http.Request, sandboxID string, port uint16) string {
	scheme, at := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if u, err := url.Parse(a.AdvertiseURL); err == nil && u.Host != "" {
		scheme, at = u.Scheme, u.Host
	}
	return OriginOf(a.Domain, scheme, at, sandboxID, port)
}

// OriginOf returns the origin of a port, on a server with a preview domain at a host and its port.
func OriginOf(domain, scheme, at, sandboxID string, port uint16) string {
	host := strconv.Itoa(int(port)) + "-" + sandboxID + "." + domain
	if _, number, err := net.SplitHostPort(at); err == nil && number != "" {
		host = net.JoinHostPort(host, number)
	}
	return scheme + "://" + host
}

func (a *Origins) secure(r *http.Request) bool {
	return strings.HasPrefix(a.Origin(r, "x", 1), "https:")
}

// cookie returns the name of the cookie. Over HTTPS the browser ensures that no page of another sandbox has set it.
func (a *Origins) cookie(r *http.Request) string {
	if a.secure(r) {
		return "__Host-" + cookieName
	}
	return cookieName
}

func (a *Origins) serve(w http.ResponseWriter, r *http.Request) {
	at, err := a.placeOf(r.Host)
	if err == nil && !strings.HasPrefix(r.URL.Path, "/") {
		err = fault.Errorf("open preview", api.CodeInvalidPath, "the path does not begin with '/'")
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	grant := &grant{a: a, at: at}
	who, kind, err := middleware.Caller(r, []middleware.Credential{{Kind: auth.SignedURL, Find: grant.find}, a.Keys}, a.route)
	if err == nil && !auth.Includes(who.Scope, a.route.Scope) {
		err = fault.Errorf("", api.CodeForbidden, "this needs a key of scope %s; the one sent has scope %s", a.route.Scope, who.Scope)
	}
	if err == nil && kind == auth.SignedURL && !grant.direct {
		err = checkPage(r)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	exchange.Of(r.Context()).Principal = who
	ctx := telemetry.With(auth.WithPrincipal(r.Context(), who), slog.String(telemetry.FieldTenant, who.Tenant))
	r = r.WithContext(ctx)
	if grant.direct && kind == auth.SignedURL && exchange.SafeMethod(r.Method) && r.Method != http.MethodOptions && r.Header.Get("Upgrade") == "" {
		a.enter(w, r, grant)
		return
	}
	r.URL.RawQuery = grant.query
	session := who.KeyID
	if kind == auth.SignedURL {
		session = exchange.OfURL(grant.id)
	}
	a.Sessions.Serve(w, r, session, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.forward(w, r, at, kind == auth.APIKey)
	}))
}

// grant is the signed URL, or the cookie made from one, of a request.
type grant struct {
	a       *Origins
	at      place
	id      string // of the URL
	token   string
	expires time.Time
	direct  bool   // the token is in the address, not in the cookie
	query   string // the request's query without the token
}

// find implements middleware.Credential. A page of another sandbox can set cookies for the whole domain, so that there may
// be several of the name; the one that is valid counts.
func (g *grant) find(r *http.Request) (who auth.Principal, sent bool, err error) {
	tokens := []string{}
	token, query, direct := cutToken(r.URL.RawQuery)
	if g.query, g.direct = query, direct; direct {
		tokens = append(tokens, token)
	} else {
		for _, c := range r.CookiesNamed(g.a.cookie(r)) {
			tokens = append(tokens, c.Value)
		}
	}
	if len(tokens) == 0 || g.a.URLs == nil {
		return who, false, nil
	}
	for _, token := range tokens[:min(len(tokens), 8)] {
		found, u, failed := g.a.URLs.Authenticate(r.Context(), token, g.at.sandbox, g.at.port)
		if failed == nil {
			g.id, g.token, g.expires = u.ID, token, u.ExpiresAt
			return found, true, nil
		}
		if err == nil {
			err = failed
		}
	}
	return who, true, err
}

// cutToken removes the token from a raw query and leaves the rest as it is.
func cutToken(raw string) (token, rest string, found bool) {
	var kept []string
	for part := range strings.SplitSeq(raw, "&") {
		if value, is := strings.CutPrefix(part, tokenName+"="); is {
			token, found = value, true
		} else {
			kept = append(kept, part)
		}
	}
	return token, strings.Join(kept, "&"), found
}

// checkPage refuses requests that pages of other origins send through a visitor's browser, which adds the cookie. Links
// from other pages work. Other sandboxes are of the same site, so SameSite does not keep them out.
func checkPage(r *http.Request) error {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	own, err := url.Parse(origin)
	switch foreign := origin != "" && (err != nil || !strings.EqualFold(own.Host, r.Host)); {
	case foreign, site == "cross-site", site == "same-site":
		if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && exchange.SafeMethod(r.Method) {
			return nil
		}
	case site != "" || origin != "" || exchange.SafeMethod(r.Method) && r.Header.Get("Upgrade") == "":
		return nil
	}
	e := fault.Errorf("open preview", api.CodeForeignOrigin, "the request comes from a page of another origin")
	e.Hint = "Open the preview in a tab of the browser. Pages reach only the port that they come from."
	return e
}

// enter answers a signed URL: the browser gets a cookie for this host and continues at the address without the token.
func (a *Origins) enter(w http.ResponseWriter, r *http.Request, g *grant) {
	secure := a.secure(r)
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie(r), Value: g.token, Path: "/", Expires: g.expires, Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	to := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/") // two slashes would begin a host
	if g.query != "" {
		to += "?" + g.query
	}
	ownHeaders(w.Header())
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// forward sends a request to the port.
func (a *Origins) forward(w http.ResponseWriter, r *http.Request, at place, keyed bool) {
	s := a.sites.at(at)
	var h *engine.Handle
	var err error
	if keyed { // a URL is bound to its sandbox, a key is not
		_, err = a.handle(r.Context(), at)
	}
	if err == nil {
		h, err = a.wake(r, s)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer h.HoldLate(r.Context(), "preview")()
	r, slow := steady(w, r, a.TransferTimeout)
	origin := func(port uint16) string { return a.Origin(r, at.sandbox, port) }
	preview.Proxy{
		Port: at.port, Ending: a.Ending, Origin: origin, Keyed: keyed, Pool: s.transport(),
		Fail: func(w http.ResponseWriter, r *http.Request, err error) {
			if slow() {
				stream.FailUpload(w, r, stream.ErrSlow, a.TransferTimeout)
				return
			}
			a.fail(w, r, access.GuestError("reach port", err))
		},
	}.ServeHTTP(w, r)
}

// wake makes the sandbox of a port run. A browser that opens a page does not wait long for it: it gets the waiting page,
// and the sandbox goes on starting.
func (a *Origins) wake(r *http.Request, s *site) (*engine.Handle, error) {
	limit := a.RequestTimeout
	if opensPage(r) {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	h, err := s.ready(ctx, a)
	if opensPage(r) && r.Context().Err() == nil && (errors.Is(err, context.DeadlineExceeded) || fault.CodeOf(err) == api.CodeBusy) {
		record, found := a.Record(r.Context(), sandbox.PublicID(s.at.sandbox))
		if found != nil {
			return nil, found
		}
		return nil, &starting{record.State, s.since()}
	}
	return h, err
}

// opensPage reports whether a browser opens the address of the request as a page.
func opensPage(r *http.Request) bool {
	if !exchange.SafeMethod(r.Method) || r.Method == http.MethodOptions || r.Header.Get("Upgrade") != "" {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// handle returns a handle on the sandbox of a place, if the principal of ctx may use it.
func (a *Origins) handle(ctx context.Context, at place) (*engine.Handle, error) {
	h, s, err := a.Handle(ctx, sandbox.PublicID(at.sandbox))
	if err == nil && s.ID != at.sandbox {
		err = fault.Errorf("open preview", api.CodeNotFound, "there is no sandbox %s", at.sandbox)
	}
	return h, err
}
