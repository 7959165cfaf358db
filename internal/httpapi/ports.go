package httpapi

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/preview"
)

// addPorts adds the way to what listens in a sandbox. The specification has it once: any method passes.
func (a *Handler) addPorts(op opMaker) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		port := op(method, "/{id}/ports/{port}/{rest...}", "port", api.ScopeWrite, "Ask what listens on a port of a sandbox",
			append([]api.Code{api.CodePortUnreachable, api.CodeForeignOrigin}, reaching...)...)
		port.Description = "Passes the request on to 127.0.0.1:port inside, of any method but OPTIONS and with any body, and the answer back; WebSockets and streams work. " +
			"The key and cookies of Berth are not passed on. The answer runs in a browser's sandbox: its pages have no origin, and its cookies and redirects stay below this path."
		port.Timeout, port.Raw, port.Hidden = unlimited, true, port.Hidden || method != http.MethodGet
		a.serveRaw(port, "*/*", a.port, inPath("id", "port", "rest"))
		port.Path, port.Hidden = strings.TrimSuffix(port.Path, "/{rest...}"), true
		a.serveRaw(port, "*/*", a.portRoot)
	}
}

// portRoot leads to the root of what listens there: below it, relative links work.
func (a *Handler) portRoot(w http.ResponseWriter, r *http.Request) {
	if _, err := preview.ParsePort(r.PathValue("port")); err != nil {
		fail(w, r, err)
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
func (a *Handler) port(w http.ResponseWriter, r *http.Request) {
	port, err := preview.ParsePort(r.PathValue("port"))
	var h Handle
	if err == nil {
		h, _, err = a.open(r.Context(), r.PathValue("id"))
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	conn, err := h.Guest(r.Context())
	if err != nil {
		fail(w, r, guestError("reach port", err))
		return
	}
	defer conn.Close()
	defer holdLate(r.Context(), h, "preview")()
	prefix, _ := splitPort(r.URL.EscapedPath())
	preview.Proxy{
		Port: port, Prefix: prefix, Ending: a.ending,
		Dial: func(ctx context.Context) (net.Conn, error) { return conn.Dial(ctx, port) },
		Fail: func(w http.ResponseWriter, r *http.Request, err error) { fail(w, r, guestError("reach port", err)) },
	}.ServeHTTP(w, r)
}

// splitPort parts an escaped path behind the port, which is where it stops being ours. Rest is empty if it
// is no such path.
func splitPort(path string) (prefix, rest string) {
	segments := strings.SplitN(path, "/", 8) // "", api, v1, sandboxes, id, ports, port, rest
	if len(segments) < 8 || segments[1] != "api" || segments[2] != "v1" || segments[5] != "ports" ||
		segments[3] != "sandboxes" && segments[3] != "sandbox" {
		return path, ""
	}
	return strings.Join(segments[:7], "/"), "/" + segments[7]
}
