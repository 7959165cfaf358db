package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

func (a *Handler) addOps() {
	serve(a, operation{
		route:   route{Method: http.MethodGet, Path: "/healthz", Name: "healthz", Health: true},
		Tag:     "Operations",
		Summary: "Whether the process lives",
	}, func(context.Context, *struct{}) (*reply[api.Health], error) {
		return &reply[api.Health]{Body: api.Health{Status: "ok", Version: a.Version}}, nil
	})
	serve(a, operation{
		route:   route{Method: http.MethodGet, Path: "/readyz", Name: "readyz", Health: true},
		Tag:     "Operations",
		Summary: "Whether the server can do its work",
		Also:    map[int]string{http.StatusServiceUnavailable: "Not ready, or draining; the body says why"},
	}, newReadiness(a).answer)
	a.serveRaw(operation{
		route:   route{Method: http.MethodGet, Path: "/metrics", Name: "metrics", Scope: api.ScopeRead, Loopback: true, Health: true},
		Tag:     "Operations",
		Summary: "Metrics in the Prometheus format; open to callers on the server's machine",
	}, "text/plain", a.Metrics.Handler().ServeHTTP)
}
