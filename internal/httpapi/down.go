package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func (a *Handler) addDown() {
	serve(a, operation{
		route: route{Method: http.MethodPost, Path: "/api/v1/down", Name: "down", Scope: api.ScopeAdmin},
		Tag:   "Operations", Summary: "Stop every sandbox of this machine",
		Description: "Stops the sandboxes of all tenants on the machine that answers, and keeps their files; the next use of one starts it again. It needs an admin key of the tenant default.",
	}, a.down)
}

func (a *Handler) down(ctx context.Context, _ *struct{}) (*reply[api.Down], error) {
	if err := operators(ctx, "stopping everybody's sandboxes"); err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	stopped, failed, err := a.Engine.Down(ctx, who.Actor())
	if err != nil {
		return nil, err
	}
	return &reply[api.Down]{Body: api.Down{Stopped: stopped, Failed: failed}}, nil
}

// operators refuses all but those who run the server, the admins of the default tenant.
func operators(ctx context.Context, doing string) error {
	who, _ := auth.PrincipalFrom(ctx)
	if store.TenantID(who.Tenant) == auth.DefaultTenant && auth.Includes(who.Scope, api.ScopeAdmin) {
		return nil
	}
	return sandbox.Errorf("", api.CodeForbidden, "%s needs an admin key of the tenant %s", doing, auth.DefaultTenant)
}
