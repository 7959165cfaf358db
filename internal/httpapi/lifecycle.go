package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// reaching are the problems of whatever needs the sandbox to run.
var reaching = []api.Code{
	api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeNotRunning, api.CodeWrongHost, api.CodeUnsupported,
	api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy,
}

// interrupting are the problems of whatever would end a turn that runs.
var interrupting = append([]api.Code{api.CodeTurnRunning}, reaching...)

// verb changes whether a sandbox runs.
type verb struct {
	name, summary string
	do            func(Handle, context.Context) (sandbox.Sandbox, error)
	ends          bool // what runs in it
}

// addLifecycle adds the verbs.
func (a *Handler) addLifecycle(op opMaker) {
	start := op(http.MethodPost, "/{id}/start", "start-sandbox", api.ScopeWrite, "Make a sandbox run", slices.Concat(reaching, pulling)...)
	serve(a, start, func(ctx context.Context, in *startSandbox) (*reply[api.Sandbox], error) {
		return a.change(ctx, in.ID, verb{name: "start", do: a.merging(Handle.Start, in.MassDelete)}, false)
	})
	restart := op(http.MethodPost, "/{id}/restart", "restart-sandbox", api.ScopeWrite, "Stop a sandbox and start it again", slices.Concat(interrupting, pulling)...)
	serve(a, restart, func(ctx context.Context, in *restartSandbox) (*reply[api.Sandbox], error) {
		return a.change(ctx, in.ID, verb{name: "restart", do: a.merging(Handle.Restart, in.MassDelete), ends: true}, in.Force)
	})
	for _, v := range []verb{
		{"freeze", "Hold everything in a sandbox where it is, until its next use", Handle.Freeze, false},
		{"thaw", "Let a frozen sandbox run on", Handle.Thaw, false},
	} {
		serve(a, op(http.MethodPost, "/{id}/"+v.name, v.name+"-sandbox", api.ScopeWrite, v.summary, reaching...),
			func(ctx context.Context, in *ByRef) (*reply[api.Sandbox], error) {
				return a.change(ctx, in.ID, v, false)
			})
	}
	for _, v := range []verb{
		{"stop", "Stop a sandbox and keep its files", Handle.Stop, true},
		{"archive", "Save a sandbox's workspace and end its instance", Handle.Archive, true},
	} {
		serve(a, op(http.MethodPost, "/{id}/"+v.name, v.name+"-sandbox", api.ScopeWrite, v.summary, interrupting...),
			func(ctx context.Context, in *interruptSandbox) (*reply[api.Sandbox], error) {
				return a.change(ctx, in.ID, v, in.Force)
			})
	}
}

type startSandbox struct {
	ByRef
	MassDelete
}

type restartSandbox struct {
	ByRef
	Forcing
	MassDelete
}

type interruptSandbox struct {
	ByRef
	Forcing
}

func (a *Handler) change(ctx context.Context, ref string, v verb, force bool) (*reply[api.Sandbox], error) {
	h, s, err := a.open(ctx, ref)
	if err == nil && v.ends {
		err = a.clear(ctx, s, force, "asked to "+v.name+" its sandbox")
	}
	if err != nil {
		return nil, err
	}
	if s, err = v.do(h, ctx); err != nil {
		return nil, guestError(v.name+" sandbox", err)
	}
	out := sandboxOut(s)
	out.Frozen = v.name == "freeze"
	return &reply[api.Sandbox]{Body: out}, nil
}

func (a *Handler) addTerminate(op opMaker) {
	end := op(http.MethodPost, "/{id}/terminate", "terminate-sandbox", api.ScopeWrite, "End a sandbox's instance, and its files", interrupting...)
	end.Description = "A last version is saved first where the server can do that. The sandbox stays, and its next use makes a new instance."
	serve(a, end, a.terminateSandbox)
}

type endSandbox struct {
	ByRef
	Ending
	Forcing
}

func (a *Handler) terminateSandbox(ctx context.Context, in *endSandbox) (*reply[api.Sandbox], error) {
	h, s, err := a.open(ctx, in.ID)
	if err == nil {
		err = a.clear(ctx, s, in.Force, "asked to terminate its sandbox")
	}
	if err != nil {
		return nil, err
	}
	if s, err = h.Terminate(ctx, !in.Sync); err != nil {
		return nil, err
	}
	return &reply[api.Sandbox]{Body: sandboxOut(s)}, nil
}
