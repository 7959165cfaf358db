package sandboxes

import (
	"context"
	"net/http"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
)

// verb is an operation that changes the state of a sandbox.
type verb struct {
	name, summary string
	do            func(*engine.Handle, context.Context) (sandbox.Sandbox, error)
	ends          bool // the verb ends the processes in the sandbox
}

// addLifecycle adds the routes of all verbs.
func (a *handlers) addLifecycle(op access.OperationFunc) {
	start := op(http.MethodPost, "/{id}/start", "start-sandbox", api.ScopeWrite, "Start a sandbox", slices.Concat(access.ReachProblems, access.PullProblems)...)
	rest.Serve(a.Spec, start, func(ctx context.Context, in *startSandbox) (*rest.Reply[api.Sandbox], error) {
		return a.change(ctx, in.ID, verb{name: "start", do: a.Merging((*engine.Handle).Start, in.MassDelete)}, false)
	})
	restart := op(http.MethodPost, "/{id}/restart", "restart-sandbox", api.ScopeWrite, "Restart a sandbox", slices.Concat(access.InterruptProblems, access.PullProblems)...)
	rest.Serve(a.Spec, restart, func(ctx context.Context, in *restartSandbox) (*rest.Reply[api.Sandbox], error) {
		return a.change(ctx, in.ID, verb{name: "restart", do: a.Merging((*engine.Handle).Restart, in.MassDelete), ends: true}, in.Force)
	})
	for _, v := range []verb{
		{"freeze", "Freeze a sandbox's processes", (*engine.Handle).Freeze, false},
		{"thaw", "Thaw a frozen sandbox", (*engine.Handle).Thaw, false},
	} {
		rest.Serve(a.Spec, op(http.MethodPost, "/{id}/"+v.name, v.name+"-sandbox", api.ScopeWrite, v.summary, access.ReachProblems...),
			func(ctx context.Context, in *access.ByRef) (*rest.Reply[api.Sandbox], error) {
				return a.change(ctx, in.ID, v, false)
			})
	}
	for _, v := range []verb{
		{"stop", "Stop a sandbox", (*engine.Handle).Stop, true},
		{"archive", "Save a sandbox's workspace and terminate its instance", (*engine.Handle).Archive, true},
	} {
		rest.Serve(a.Spec, op(http.MethodPost, "/{id}/"+v.name, v.name+"-sandbox", api.ScopeWrite, v.summary, access.InterruptProblems...),
			func(ctx context.Context, in *interruptSandbox) (*rest.Reply[api.Sandbox], error) {
				return a.change(ctx, in.ID, v, in.Force)
			})
	}
	a.addTerminate(op)
}

type startSandbox struct {
	access.ByRef
	access.MassDelete
}

type restartSandbox struct {
	access.ByRef
	access.Forcing
	access.MassDelete
}

type interruptSandbox struct {
	access.ByRef
	access.Forcing
}

func (a *handlers) change(ctx context.Context, ref string, v verb, force bool) (*rest.Reply[api.Sandbox], error) {
	h, before, err := a.Handle(ctx, ref)
	if err == nil && v.ends {
		err = a.ClearTurns(ctx, before, force, "asked to "+v.name+" its sandbox")
	}
	if err != nil {
		return nil, err
	}
	s, err := v.do(h, ctx)
	if err != nil {
		return nil, access.GuestError(v.name+" sandbox", err)
	}
	access.SetNotice(ctx, before.ActiveAt, s)
	out := engine.Show(s)
	out.Frozen = v.name == "freeze"
	return &rest.Reply[api.Sandbox]{Body: out}, nil
}

func (a *handlers) addTerminate(op access.OperationFunc) {
	end := op(http.MethodPost, "/{id}/terminate", "terminate-sandbox", api.ScopeWrite, "Terminate a sandbox's instance", access.InterruptProblems...)
	end.Description = "The workspace is saved first if the server saves workspaces; the instance's other files are deleted. The sandbox stays, and its next use creates a new instance."
	rest.Serve(a.Spec, end, a.terminateSandbox)
}

type endSandbox struct {
	access.ByRef
	access.Ending
	access.Forcing
}

func (a *handlers) terminateSandbox(ctx context.Context, in *endSandbox) (*rest.Reply[api.Sandbox], error) {
	h, before, err := a.Handle(ctx, in.ID)
	if err == nil {
		err = a.ClearTurns(ctx, before, in.Force, "asked to terminate its sandbox")
	}
	if err != nil {
		return nil, err
	}
	s, err := h.Terminate(ctx, !in.Sync)
	if err != nil {
		return nil, err
	}
	access.SetNotice(ctx, before.ActiveAt, s)
	return &rest.Reply[api.Sandbox]{Body: engine.Show(s)}, nil
}
