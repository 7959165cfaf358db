package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/store"
)

const hostsPath = "/api/v1/hosts"

func (a *Handler) addHosts() {
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: hostsPath, Name: "list-hosts", Scope: api.ScopeAdmin},
		Tag:   "Operations", Summary: "List machines",
		Description: "Lists the machines that keep local sandboxes, by name. It needs an admin key of the tenant default.",
	}, a.listHosts)
	forget := operation{
		route: route{Method: http.MethodPost, Path: hostsPath + "/{name}/forget", Name: "forget-host", Scope: api.ScopeAdmin, Timeout: sweepTime},
		Tag:   "Operations", Summary: "Forget a machine that is gone for good",
		Description: "Its sandboxes can start on other machines, from their last version, and deletes that waited for it go on. The answer says of each what was not saved. " +
			"Should the machine come back, it stops what it had of them and keeps the files. It needs an admin key of the tenant default.",
		Problems: []api.Code{api.CodeNotFound, api.CodeConflict},
	}
	serve(a, forget, a.forgetHost)
}

func (a *Handler) listHosts(ctx context.Context, _ *struct{ Paging }) (*reply[api.List[api.Host]], error) {
	if err := operators(ctx, "listing machines"); err != nil {
		return nil, err
	}
	hosts, err := a.Store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	return listOf("hosts", hosts, store.Position{}, hostOut), nil
}

func hostOut(h store.Host) api.Host {
	return api.Host{
		Name: h.Name, AdvertiseURL: h.AdvertiseURL, Alive: h.Alive, Sandboxes: h.Sandboxes,
		StartedAt: moment(h.StartedAt), SeenAt: moment(h.SeenAt), ForgottenAt: moment(h.ForgottenAt),
	}
}

type forgetHost struct {
	Name  string `path:"name" doc:"The machine's name"`
	Force bool   `query:"force" doc:"Also if its server was seen within the last minute, or never reported"`
}

func (a *Handler) forgetHost(ctx context.Context, in *forgetHost) (*reply[api.ForgottenHost], error) {
	if err := operators(ctx, "forgetting a machine"); err != nil {
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
	return &reply[api.ForgottenHost]{out}, nil
}

func forgottenOut(ctx context.Context, f engine.Forgotten) api.ForgottenSandbox {
	s := f.Sandbox
	out := api.ForgottenSandbox{
		ID: s.ID, Name: s.Name, Tenant: s.Owner.Tenant, Owner: api.Owner{Kind: string(s.Owner.Kind), ID: s.Owner.ID},
		State: string(s.State), Deleting: s.Deleted(), Lost: f.Lost, Version: s.Synced.Version, UnsavedSince: moment(s.UnsavedSince), ActiveAt: s.ActiveAt,
	}
	if f.Err != nil {
		out.Error = problemOf(ctx, f.Err).Detail
	}
	return out
}
