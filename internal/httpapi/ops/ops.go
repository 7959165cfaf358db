package ops

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

func (a *handlers) addOps() {
	rest.Serve(a.Spec, rest.Operation{
		Route:   exchange.Route{Method: http.MethodGet, Path: "/healthz", Name: "healthz", Health: true},
		Tag:     "Operations",
		Summary: "Check whether the process is alive",
	}, func(context.Context, *struct{}) (*rest.Reply[api.Health], error) {
		return &rest.Reply[api.Health]{Body: api.Health{Status: "ok", Version: a.Version}}, nil
	})
	rest.Serve(a.Spec, rest.Operation{
		Route:   exchange.Route{Method: http.MethodGet, Path: "/readyz", Name: "readyz", Health: true},
		Tag:     "Operations",
		Summary: "Check whether the server is ready",
		Also:    map[int]string{http.StatusServiceUnavailable: "Not ready, or draining; the body has the reason"},
	}, newReadiness(a).answer)
	a.ServeRaw(rest.Operation{
		Route:   exchange.Route{Method: http.MethodGet, Path: "/metrics", Name: "metrics", Scope: api.ScopeRead, Loopback: true, Health: true},
		Tag:     "Operations",
		Summary: "Get metrics in the Prometheus format",
	}, "text/plain", a.Metrics.Handler().ServeHTTP)
}
