package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// route is what the middlewares need to know of one route before its handler runs.
type route struct {
	Method string
	Path   string // as the mux has it: /api/v1/sandboxes/{id}
	Name   string // the operation's id; twins of one operation share it

	Scope    api.Scope     // what the key must include; empty: open to all
	Loopback bool          // open to callers on this machine
	Timeout  time.Duration // zero: the server's own; unlimited: the handler keeps its own time
	Secret   bool          // the answer holds a secret that must not be stored
	Health   bool          // asked all the time by machines, and answered when file descriptors run out
	Hidden   bool          // not in the specification

	Bytes   bool  // the body is bytes, not JSON
	MaxBody int64 // of the body, where the route takes more than the server's limit
	Raw     bool  // the handler reads the body as it comes, of any size; an Idempotency-Key means nothing to it

	// Claims says of which requests the handler claims the Idempotency-Key itself, because their answer is a
	// stream, which cannot be kept; nil: of none.
	Claims func(*http.Request) bool
}

// unlimited is the Timeout of routes that last as long as their client stays.
const unlimited = -1

// maxBody is how large a body may be.
func (rt *route) maxBody(most int64) int64 { return max(most, rt.MaxBody) }

func (rt *route) pattern() string { return rt.Method + " " + rt.Path }

// routes is every route with the mux that finds it.
type routes struct {
	mux *http.ServeMux
	all map[string]*route // by pattern
}

func newRoutes() *routes { return &routes{mux: http.NewServeMux(), all: map[string]*route{}} }

// add makes a route known to the middlewares.
func (rs *routes) add(rt route) { rs.all[rt.pattern()] = &rt }

// handle adds a route that is served by a plain handler.
func (rs *routes) handle(rt route, h http.HandlerFunc) {
	rs.add(rt)
	rs.mux.HandleFunc(rt.pattern(), h)
}

// find looks the route up and refuses what has none. It comes after checkPath: the mux cleans paths
// by redirecting, and there is nothing left to clean.
func (rs *routes) find(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := rs.mux.Handler(r)
		rt := rs.all[pattern]
		if rt == nil {
			refuseRoute(w, r, h)
			return
		}
		exchangeOf(r.Context()).route = rt
		next.ServeHTTP(w, r)
	})
}

// refuseRoute asks the mux's own refusal which methods there are instead: none means no such route.
func refuseRoute(w http.ResponseWriter, r *http.Request, refusal http.Handler) {
	probe := probe{header: http.Header{}}
	refusal.ServeHTTP(&probe, r)
	allow := probe.header.Get("Allow")
	switch {
	case allow == "":
		failWith(w, r, api.CodeNoRoute, "there is no route "+clip(r.URL.Path))
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", allow)
		failWith(w, r, api.CodeMethodNotAllowed, "the route "+clip(r.URL.Path)+" has no "+clip(r.Method)+", only "+allow)
	}
}

// probe is a response writer that keeps the header alone.
type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(int)             {}

// loopbackCaller reports whether the request comes from this machine itself. One that a proxy here
// passes on does not.
func loopbackCaller(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return false
		}
	}
	return isLoopback(r.RemoteAddr)
}
