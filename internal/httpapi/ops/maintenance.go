package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
)

func (a *handlers) addDown() {
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: "/api/v1/down", Name: "down", Scope: api.ScopeAdmin},
		Tag:   "Operations", Summary: "Stop all sandboxes of this machine",
		Description: "Stops the sandboxes of all tenants on the machine of this server and keeps their files. The next use of a sandbox starts it again. Requires an admin key of the tenant default.",
	}, a.down)
}

func (a *handlers) down(ctx context.Context, _ *struct{}) (*rest.Reply[api.Down], error) {
	if err := requireOperator(ctx, "stopping the sandboxes of all tenants"); err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	stopped, failed, err := a.Engine.Down(ctx, who.Actor())
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Down]{Body: api.Down{Stopped: stopped, Failed: failed}}, nil
}

// requireOperator returns an error unless the caller is an admin of the default tenant. These admins run the server.
func requireOperator(ctx context.Context, doing string) error {
	who, _ := auth.PrincipalFrom(ctx)
	if store.TenantID(who.Tenant) == auth.DefaultTenant && auth.Includes(who.Scope, api.ScopeAdmin) {
		return nil
	}
	return fault.Errorf("", api.CodeForbidden, "%s needs an admin key of the tenant %s", doing, auth.DefaultTenant)
}

// sweepTime is the time limit of a sweep. A sweep lists all instances of every driver.
const sweepTime = 10 * time.Minute

func (a *handlers) addSweep() {
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: "/api/v1/sweep", Name: "sweep", Scope: api.ScopeAdmin, Timeout: sweepTime},
		Tag:   "Operations", Summary: "Reconcile the drivers' instances with the records",
		Description: "Terminates instances without a record after a grace period, reconciles sandboxes whose record differs, and removes expired records. " +
			"The server also does this in the background. Requires an admin key of the tenant default.",
	}, a.sweep)
}

func (a *handlers) sweep(ctx context.Context, in *struct{ Body *api.SweepRequest }) (*rest.Reply[api.Sweep], error) {
	if err := requireOperator(ctx, "sweeping"); err != nil {
		return nil, err
	}
	dry := in.Body != nil && in.Body.DryRun
	sw, err := a.Engine.Sweep(ctx, engine.SweepOptions{DryRun: dry, Grace: a.OrphanGrace})
	if err != nil {
		return nil, err
	}
	out := api.Sweep{
		DryRun: sw.DryRun, At: sw.BeganAt, Took: sw.Took.Seconds(), Drivers: []api.DriverSweep{},
		Keys: sw.Keys, Holds: sw.Holds, Places: sw.Places,
	}
	for _, d := range sw.Drivers {
		out.Drivers = append(out.Drivers, driverSweepOut(d))
	}
	return &rest.Reply[api.Sweep]{Body: out}, nil
}

func driverSweepOut(d engine.DriverSweep) api.DriverSweep {
	out := api.DriverSweep{
		Driver: d.Driver, Instances: d.Instances, Unreadable: d.Unreadable, Foreign: d.Foreign, Findings: []api.SweepFinding{},
	}
	if d.Err != nil {
		out.Error = d.Err.Error()
	}
	for _, f := range d.Found {
		out.Findings = append(out.Findings, api.SweepFinding{
			Kind: f.Kind, SandboxID: f.Sandbox, Instance: string(f.Instance), Action: f.Action, Detail: f.Detail,
		})
	}
	return out
}
