package exchange

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
)

// Paths of resources that other packages name.
const (
	SandboxesPath     = "/api/v1/sandboxes"
	ProjectsPath      = "/api/v1/projects"
	OneProject        = ProjectsPath + "/{project_id}"
	ConversationsPath = "/api/v1/conversations"
	ThreadsPath       = "/api/v1/threads"
)

// Route describes one route for the middlewares, which run before its handler.
type Route struct {
	Method string
	Path   string // the pattern of the mux, such as /api/v1/sandboxes/{id}
	Name   string // the operation's id; copies under other paths have the same one

	Scope    api.Scope     // the scope that the key must include; empty: no key is needed
	Accepts  []auth.Kind   // the kinds of credentials that it accepts; nil: API keys and browser sessions
	Loopback bool          // callers on this machine need no key
	Timeout  time.Duration // zero: the server's timeout; Unlimited: none
	Secret   bool          // the answer holds a secret that must not be stored
	Health   bool          // a health check: logged at level debug, and answered when file descriptors run out
	Hidden   bool          // not in the OpenAPI document
	Quiet    bool          // requests are logged at level debug

	Bytes   bool  // the body is bytes, not JSON
	Form    bool  // the body may also be multipart/form-data
	MaxBody int64 // maximum bytes of the body, if more than the server's limit
	Raw     bool  // the handler streams the body, of any size; an Idempotency-Key is ignored

	// Claims reports whether the handler claims the Idempotency-Key of the request itself, because its answer is a
	// stream, which cannot be stored; nil: never.
	Claims func(*http.Request) bool
}

// Unlimited is the Timeout of routes without a time limit.
const Unlimited = -1

var usualKinds = []auth.Kind{auth.APIKey, auth.Session}

// Takes reports whether the route accepts a kind of credential.
func (rt *Route) Takes(kind auth.Kind) bool {
	if rt.Accepts == nil {
		return slices.Contains(usualKinds, kind)
	}
	return slices.Contains(rt.Accepts, kind)
}

// BodyLimit returns the maximum size of a body. most is the server's limit.
func (rt *Route) BodyLimit(most int64) int64 { return max(most, rt.MaxBody) }

func (rt *Route) pattern() string { return rt.Method + " " + rt.Path }

// Routes has all routes and the mux that matches them.
type Routes struct {
	Mux *http.ServeMux
	All map[string]*Route // by method and pattern
}

// NewRoutes returns an empty set of routes.
func NewRoutes() *Routes { return &Routes{Mux: http.NewServeMux(), All: map[string]*Route{}} }

// Add adds a route for the middlewares.
func (rs *Routes) Add(rt Route) { rs.All[rt.pattern()] = &rt }

// Handle adds a route that is served by a plain handler.
func (rs *Routes) Handle(rt Route, h http.HandlerFunc) {
	rs.Add(rt)
	rs.Mux.HandleFunc(rt.pattern(), h)
}

// Find finds the request's route, and refuses a request without one. It must run after CheckPath: the mux would
// redirect a path that is not clean.
func (rs *Routes) Find(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := rs.Mux.Handler(r)
		rt := rs.All[pattern]
		if rt == nil {
			refuseRoute(w, r, h)
			return
		}
		Of(r.Context()).Route = rt
		next.ServeHTTP(w, r)
	})
}

// refuseRoute answers a request without a route. The mux's own answer lists the allowed methods; if it lists none,
// there is no such path.
func refuseRoute(w http.ResponseWriter, r *http.Request, refusal http.Handler) {
	probe := probe{header: http.Header{}}
	refusal.ServeHTTP(&probe, r)
	allow := probe.header.Get("Allow")
	switch {
	case allow == "":
		FailWith(w, r, api.CodeNoRoute, "there is no route "+Clip(r.URL.Path))
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", allow)
		FailWith(w, r, api.CodeMethodNotAllowed, "the route "+Clip(r.URL.Path)+" has no "+Clip(r.Method)+", only "+allow)
	}
}

// probe is a response writer that keeps only the header.
type probe struct{ header http.Header }

func (p *probe) Header() http.Header { return p.header }

func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func (p *probe) WriteHeader(int) {}

// LoopbackCaller reports whether the request comes from a client on this machine. A request that a proxy on this
// machine forwards does not count.
func LoopbackCaller(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return false
		}
	}
	return isLoopback(r.RemoteAddr)
}

func isLoopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// SafeMethod reports whether requests of the method only read.
func SafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
