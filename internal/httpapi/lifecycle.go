package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// reaching are the problems of whatever needs the sandbox to run.
var reaching = []api.Code{
	api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeNotRunning, api.CodeWrongHost, api.CodeUnsupported,
	api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy,
}

// addLifecycle adds the verbs that change whether a sandbox runs.
func (a *Handler) addLifecycle(op opMaker) {
	for _, v := range []struct {
		verb, summary string
		do            func(Handle, context.Context) (sandbox.Sandbox, error)
	}{
		{"start", "Make a sandbox run", Handle.Start},
		{"stop", "Stop a sandbox and keep its files", Handle.Stop},
		{"restart", "Stop a sandbox and start it again", Handle.Restart},
		{"freeze", "Hold everything in a sandbox where it is, until its next use", Handle.Freeze},
		{"thaw", "Let a frozen sandbox run on", Handle.Thaw},
		{"archive", "Save a sandbox's workspace and end its instance", Handle.Archive},
	} {
		serve(a, op(http.MethodPost, "/{id}/"+v.verb, v.verb+"-sandbox", api.ScopeWrite, v.summary, reaching...),
			func(ctx context.Context, in *ByRef) (*reply[api.Sandbox], error) {
				h, _, err := a.open(ctx, in.ID)
				if err != nil {
					return nil, err
				}
				s, err := v.do(h, ctx)
				if err != nil {
					return nil, guestError(v.verb+" sandbox", err)
				}
				out := sandboxOut(s)
				out.Frozen = v.verb == "freeze"
				return &reply[api.Sandbox]{Body: out}, nil
			})
	}
}

func (a *Handler) addTerminate(op opMaker) {
	end := op(http.MethodPost, "/{id}/terminate", "terminate-sandbox", api.ScopeWrite, "End a sandbox's instance, and its files", reaching...)
	end.Description = "A last version is saved first where the server can do that. The sandbox stays, and its next use makes a new instance."
	serve(a, end, a.terminateSandbox)
}

type endSandbox struct {
	ByRef
	Ending
}

func (a *Handler) terminateSandbox(ctx context.Context, in *endSandbox) (*reply[api.Sandbox], error) {
	h, _, err := a.open(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	s, err := h.Terminate(ctx, !in.Sync)
	if err != nil {
		return nil, err
	}
	return &reply[api.Sandbox]{Body: sandboxOut(s)}, nil
}
