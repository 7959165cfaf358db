package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/mcp"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/tool"
)

// addProjectTools adds what is done inside a project's sandbox.
func (a *Handler) addProjectTools(one string) {
	using := append([]api.Code{api.CodeNotRunning}, ensuring...)
	list := projectOp(http.MethodGet, one+"/tools", "list-project-tools", api.ScopeRead, "List the tools that can be used in the project's sandbox", api.CodeInvalidID)
	list.Description = "The built-in ones, and those of the MCP servers that the sandbox's template declares, as server__tool. Nothing is made or started for that but the servers, in a sandbox that runs; what keeps one from telling its tools stands beside its name."
	serve(a, list, a.listTools)

	execute := projectOp(http.MethodPost, one+"/execute", "execute-project-tool", api.ScopeWrite, "Use a tool in the project's sandbox", append(using, api.CodeUnknownTool)...)
	execute.Description = "Makes and starts the sandbox where need be, and answers once the tool is done, or its time is over. " +
		"A tool that ran and failed is an answer with is_error; what keeps one from running is a problem. With an Idempotency-Key it goes on when its caller is gone, and whoever asks again gets its answer."
	execute.Timeout = unlimited
	serve(a, execute, a.executeTool)

	endpoint := projectOp(http.MethodPost, oneProject+"/mcp", "project-mcp", api.ScopeWrite, "The tools of the project's sandbox over the Model Context Protocol", using...)
	endpoint.Description = "An endpoint of streamable HTTP without sessions: each POST is one JSON-RPC message and is answered with one; a tool call with a progressToken whose caller accepts text/event-stream is answered with a stream of notifications/progress and the result. A closed connection ends a call and what it runs. notifications/cancelled does so too where it reaches the server that runs the call. The first tool that is used makes and starts the sandbox where need be; so does a list of the tools if its template declares MCP servers."
	endpoint.Timeout, endpoint.Also = unlimited, map[int]string{http.StatusAccepted: "A notice, which has no answer"}
	mcp := a.mcp()
	a.serveRaw(endpoint, "application/json", mcp, inPath("project_id"), answers[any](a))
	end := projectOp(http.MethodDelete, oneProject+"/mcp", "end-project-mcp-calls", api.ScopeWrite, "End the caller's tool calls in the project's sandbox", api.CodeInvalidID)
	end.Description = "Ends the calls that were made with the same key over the Model Context Protocol and that the answering server runs, with what they run in the sandbox."
	end.Also = map[int]string{http.StatusNoContent: "They are ended"}
	a.serveRaw(end, "application/json", mcp, inPath("project_id"))

	a.addProjectScreens(one)
}

// addProjectScreens adds the routes of what is not there yet. They say what to use instead.
func (a *Handler) addProjectScreens(one string) {
	for _, screen := range []struct{ name, detail, hint string }{
		{"desktop", "this server has no desktops yet", "Use the project's tools (POST …/sandbox/execute), or the terminal of its sandbox."},
		{"terminal", "terminals are not started by project", "Open a WebSocket at GET /api/v1/sandboxes/{sandbox_id}/terminal, which starts a shell and attaches to it again; GET …/sandbox tells the sandbox_id."},
	} {
		for method, verb := range map[string]string{http.MethodPost: "start", http.MethodDelete: "stop"} {
			op := projectOp(method, one+"/"+screen.name, verb+"-project-"+screen.name, api.ScopeWrite, "Not there yet: "+verb+" a "+screen.name, api.CodeInvalidID, api.CodeUnsupported)
			op.Description = screen.hint
			serve(a, op, func(_ context.Context, in *ByProject) (*struct{}, error) {
				if err := project.CheckID(in.ProjectID); err != nil {
					return nil, err
				}
				e := sandbox.Errorf("", api.CodeUnsupported, "%s", screen.detail)
				e.Hint = screen.hint
				return nil, e
			})
		}
	}
}

func (a *Handler) listTools(ctx context.Context, in *ByProject) (*reply[api.ToolList], error) {
	if err := project.CheckID(in.ProjectID); err != nil {
		return nil, err
	}
	if a.Open == nil {
		return &reply[api.ToolList]{api.ToolList{Items: a.tools.List()}}, nil
	}
	box, err := a.projectBox(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	all, err := a.tools.All(ctx, &restingBox{box})
	if err != nil {
		return nil, err
	}
	return &reply[api.ToolList]{all}, nil
}

type executeTool struct {
	ByProject
	Body api.ExecuteTool
}

func (a *Handler) executeTool(ctx context.Context, in *executeTool) (*reply[api.ToolResult], error) {
	box, err := a.projectBox(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.working(ctx)
	defer cancel()
	result, err := a.tools.Call(ctx, box, in.Body)
	if err != nil {
		return nil, argumentsOut(err)
	}
	return &reply[api.ToolResult]{result}, nil
}

// argumentsOut is the problem of arguments that are wrong, with each of them.
func argumentsOut(err error) error {
	bad, ok := errors.AsType[*tool.ArgumentError](err)
	if !ok {
		return err
	}
	p := newProblem(api.CodeInvalidRequest, "body."+bad.Error())
	p.Hint = "Compare the arguments with the tool's input_schema; GET …/sandbox/tools has it."
	for _, field := range bad.Fields {
		field.Location = "body." + field.Location
		p.Errors = append(p.Errors, field)
	}
	return p
}

func (a *Handler) mcp() http.HandlerFunc {
	var calls mcp.Calls // of other servers as well, which SQLite's has not
	if a.Store != nil && a.Store.Engine() == "postgres" {
		calls = a.Store
	}
	h := mcp.Handler(mcp.Options{
		Tools: a.tools, Version: a.Version, Calls: calls,
		Box:     func(r *http.Request) (tool.Box, error) { return a.projectBox(r.Context(), r.PathValue("project_id")) },
		Caller:  func(r *http.Request) string { p := exchangeOf(r.Context()).principal; return p.Tenant + " " + p.KeyID },
		Problem: func(ctx context.Context, err error) *api.Problem { return &problemOf(ctx, err).Problem },
		Fail:    fail,
	})
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := a.working(r.Context())
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}
}

// working is the context of a tool's work. It has its own time, which the tools keep themselves, and
// where the request has an Idempotency-Key it outlives the connection: who asks again gets the answer, and
// the tool is not used twice.
func (a *Handler) working(ctx context.Context) (context.Context, context.CancelFunc) {
	if exchangeOf(ctx).effect == "" {
		return context.WithTimeout(ctx, tool.MaxTime+a.RequestTimeout)
	}
	own, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if why := context.Cause(ctx); why == errShutdown || why == errClaimLost {
			cut(why)
		}
	})
	own, cancel := context.WithTimeout(own, tool.MaxTime+a.RequestTimeout)
	return own, func() { stop(); cancel(); cut(nil) }
}
