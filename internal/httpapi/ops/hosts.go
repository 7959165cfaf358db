package ops

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
)

const hostsPath = "/api/v1/hosts"

func (a *handlers) addHosts() {
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: hostsPath, Name: "list-hosts", Scope: api.ScopeAdmin},
		Tag:   "Operations", Summary: "List machines",
		Description: "Lists the machines with local sandboxes, by name. Requires an admin key of the tenant default.",
	}, a.listHosts)
	forget := rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: hostsPath + "/{name}/forget", Name: "forget-host", Scope: api.ScopeAdmin, Timeout: sweepTime},
		Tag:   "Operations", Summary: "Remove a machine that will not come back",
		Description: "Its sandboxes can then start on other machines, from their last version, and pending deletes continue. The answer lists unsaved changes by sandbox. " +
			"If the machine comes back, it stops its old instances and keeps their files. Requires an admin key of the tenant default.",
		Problems: []api.Code{api.CodeNotFound, api.CodeConflict},
	}
	rest.Serve(a.Spec, forget, a.forgetHost)
}

func (a *handlers) listHosts(ctx context.Context, _ *struct{ rest.Paging }) (*rest.Reply[api.List[api.Host]], error) {
	if err := requireOperator(ctx, "listing machines"); err != nil {
		return nil, err
	}
	hosts, err := a.Store.Hosts().List(ctx)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("hosts", hosts, store.Position{}, hostOut), nil
}

func hostOut(h store.Host) api.Host {
	return api.Host{
		Name: h.Name, AdvertiseURL: h.AdvertiseURL, Alive: h.Alive, Sandboxes: h.Sandboxes,
		StartedAt: access.TimePtr(h.StartedAt), SeenAt: access.TimePtr(h.SeenAt), ForgottenAt: access.TimePtr(h.ForgottenAt),
	}
}

type forgetHost struct {
	Name  string `path:"name" doc:"The machine's name"`
	Force bool   `query:"force" doc:"Also if its server was seen within the last minute, or never reported"`
}

func (a *handlers) forgetHost(ctx context.Context, in *forgetHost) (*rest.Reply[api.ForgottenHost], error) {
	if err := requireOperator(ctx, "forgetting a machine"); err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	forgotten, err := a.Engine.Forget(ctx, in.Name, in.Force, who.Actor())
	if err != nil {
		return nil, err
	}
	out := api.ForgottenHost{Name: in.Name, Sandboxes: []api.ForgottenSandbox{}}
	for _, f := range forgotten {
		out.Sandboxes = append(out.Sandboxes, forgottenOut(ctx, f))
	}
	return &rest.Reply[api.ForgottenHost]{Body: out}, nil
}

func forgottenOut(ctx context.Context, f engine.Forgotten) api.ForgottenSandbox {
	s := f.Sandbox
	out := api.ForgottenSandbox{
		ID: s.ID, Name: s.Name, Tenant: s.Owner.Tenant, Owner: api.Owner{Kind: string(s.Owner.Kind), ID: s.Owner.ID},
		State: string(s.State), Deleting: s.Deleted(), Lost: f.Lost, Version: s.Synced.Version, UnsavedSince: access.TimePtr(s.UnsavedSince), ActiveAt: s.ActiveAt,
	}
	if f.Err != nil {
		out.Error = exchange.ProblemOf(ctx, f.Err).Detail
	}
	return out
}
