package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
)

// sweepTime is how long a sweep may take: it asks every driver for everything.
const sweepTime = 10 * time.Minute

func (a *Handler) addSweep() {
	serve(a, operation{
		route: route{Method: http.MethodPost, Path: "/api/v1/sweep", Name: "sweep", Scope: api.ScopeAdmin, Timeout: sweepTime},
		Tag:   "Operations", Summary: "Compare what the drivers have with the records, and put it in order",
		Description: "Ends instances that no record claims once they have been seen for a while, has what does not fit looked at, and forgets what has run out. " +
			"The server does so by itself, too. It needs an admin key of the tenant default.",
	}, a.sweep)
}

func (a *Handler) sweep(ctx context.Context, in *struct{ Body *api.SweepRequest }) (*reply[api.Sweep], error) {
	if err := operators(ctx, "sweeping"); err != nil {
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
	return &reply[api.Sweep]{out}, nil
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
