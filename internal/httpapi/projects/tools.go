package projects

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/execs"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/mcp"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/tool"
)

// addProjectTools adds the routes of the tools of a project's sandbox.
func (a *handlers) addProjectTools(one string) {
	using := append([]api.Code{api.CodeNotRunning}, access.EnsureProblems...)
	list := projectOp(http.MethodGet, one+"/tools", "list-project-tools", api.ScopeRead, "List the tools of the project's sandbox", api.CodeInvalidID)
	list.Description = "Lists the built-in tools and, as server__tool, those of the MCP servers that the sandbox's template declares. The servers are started only if the sandbox runs. A server whose tools cannot be listed has a problem beside its name."
	rest.Serve(a.Spec, list, a.listTools)

	execute := projectOp(http.MethodPost, one+"/execute", "execute-project-tool", api.ScopeWrite, "Call a tool in the project's sandbox", append(using, api.CodeUnknownTool)...)
	execute.Description = "Creates and starts the sandbox if needed, and returns when the tool has ended or timed out. " +
		"If the tool ran and failed, the result has is_error; if it could not run, the answer is a problem. With an Idempotency-Key the call continues if the client disconnects, and a repeated request gets its result."
	execute.Timeout = exchange.Unlimited
	rest.Serve(a.Spec, execute, a.executeTool)

	endpoint := projectOp(http.MethodPost, exchange.OneProject+"/mcp", "project-mcp", api.ScopeWrite, "Call the project's tools over the Model Context Protocol", using...)
	endpoint.Description = "A streamable HTTP endpoint without sessions: each POST is one JSON-RPC message and gets one answer. A tool call with a progressToken whose caller accepts text/event-stream is answered with a stream of notifications/progress and the result. Closing the connection cancels a call and kills its processes; so does notifications/cancelled. The first tool call creates and starts the sandbox if needed; so does tools/list if the template declares MCP servers."
	endpoint.Timeout, endpoint.Also = exchange.Unlimited, map[int]string{http.StatusAccepted: "A notification; it has no answer"}
	mcp := a.mcp()
	a.ServeRaw(endpoint, "application/json", mcp, rest.InPath("project_id"), rpcBody, rest.Answers[any](a.Spec))
	end := projectOp(http.MethodDelete, exchange.OneProject+"/mcp", "end-project-mcp-calls", api.ScopeWrite, "Cancel the caller's tool calls in the project's sandbox", api.CodeInvalidID)
	end.Description = "Cancels the calls that were made with the same key over the Model Context Protocol and run on the answering server, and kills their processes in the sandbox."
	end.Also = map[int]string{http.StatusNoContent: "The calls are cancelled"}
	a.ServeRaw(end, "application/json", mcp, rest.InPath("project_id"))

	a.addTerminal(one)
	a.addDesktop(one)
}

// rpcBody documents the JSON-RPC message of an MCP request.
func rpcBody(o *huma.Operation) {
	schema := &huma.Schema{Type: huma.TypeObject, Description: "A JSON-RPC 2.0 message", AdditionalProperties: true,
		Examples: []any{map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}}
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// addDesktop adds routes that are not implemented yet. Their answer names the alternative.
func (a *handlers) addDesktop(one string) {
	const hint = "Use the project's tools (POST …/sandbox/execute), or the terminal of its sandbox."
	for method, verb := range map[string]string{http.MethodPost: "start", http.MethodDelete: "stop"} {
		op := projectOp(method, one+"/desktop", verb+"-project-desktop", api.ScopeWrite, "Not implemented: "+verb+" a desktop", api.CodeInvalidID, api.CodeUnsupported)
		op.Description = hint
		rest.Serve(a.Spec, op, func(_ context.Context, in *ByProject) (*struct{}, error) {
			if err := project.CheckID(in.ProjectID); err != nil {
				return nil, err
			}
			e := fault.Errorf("", api.CodeUnsupported, "this server has no desktops yet")
			e.Hint = hint
			return nil, e
		})
	}
}

// addTerminal adds the routes of the terminals in the project's sandbox.
func (a *handlers) addTerminal(one string) {
	start := projectOp(http.MethodPost, one+"/terminal", "start-project-terminal", api.ScopeWrite, "Start a terminal in the project's sandbox and sign its URLs",
		append(append([]api.Code{api.CodeNotRunning}, execs.TerminalProblems...), access.EnsureProblems...)...)
	start.Description = "Creates and starts the sandbox if needed. " + execs.DescribeTerminal
	start.Secret, start.Status = true, http.StatusCreated
	rest.Serve(a.Spec, start, a.startTerminal)
	end := projectOp(http.MethodDelete, one+"/terminal", "stop-project-terminal", api.ScopeWrite, "Stop the terminals of the project's sandbox",
		append([]api.Code{api.CodeNoSuchExec, api.CodeDriverUnreachable}, api.CodeInvalidID, api.CodeNotFound)...)
	end.Description = "Stops the terminals that POST has started, or only that of exec_id, and revokes their URLs."
	rest.Serve(a.Spec, end, a.endTerminals)
}

type startTerminal struct {
	ByProject
	Body *api.CreateTerminal
}

func (a *handlers) startTerminal(ctx context.Context, in *startTerminal) (*rest.Created[api.SandboxTerminal], error) {
	h, err := a.projectHandle(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	return a.Terminals.Start(ctx, h, in.Body)
}

type endTerminals struct {
	ByProject
	ExecID string `query:"exec_id" doc:"The id of the one terminal to end; absent: all"`
}

func (a *handlers) endTerminals(ctx context.Context, in *endTerminals) (*struct{}, error) {
	s, err := a.inProjects(ctx).Get(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	return nil, a.Terminals.End(ctx, a.Engine.HandleOn(s, who.Actor()), s, in.ExecID)
}

// projectHandle returns a handle on the project's sandbox for tools. The sandbox is created and started only when a
// tool first uses it, so that a refused call creates none.
func (a *handlers) projectHandle(ctx context.Context, id string) (*engine.Handle, error) {
	return a.inProjects(ctx).Handle(id, exchange.EffectID(ctx), a.RequestTimeout)
}

func (a *handlers) listTools(ctx context.Context, in *ByProject) (*rest.Reply[api.ToolList], error) {
	h, err := a.projectHandle(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	all, err := a.Tools.All(ctx, h.ReadOnly())
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.ToolList]{Body: all}, nil
}

type executeTool struct {
	ByProject
	Body api.ExecuteTool
}

func (a *handlers) executeTool(ctx context.Context, in *executeTool) (*rest.Reply[api.ToolResult], error) {
	h, err := a.projectHandle(ctx, in.ProjectID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.working(ctx)
	defer cancel()
	result, err := a.Tools.Call(ctx, h, in.Body)
	if err != nil {
		return nil, argumentsOut(err)
	}
	return &rest.Reply[api.ToolResult]{Body: result}, nil
}

// argumentsOut returns the problem for invalid arguments, with all invalid fields.
func argumentsOut(err error) error {
	bad, ok := errors.AsType[*tool.ArgumentError](err)
	if !ok {
		return err
	}
	p := exchange.NewProblem(api.CodeInvalidRequest, "body."+bad.Error())
	p.Hint = "Compare the arguments with the tool's input_schema; GET …/sandbox/tools has it."
	for _, field := range bad.Fields[:min(len(bad.Fields), exchange.MostErrors)] {
		field.Location = "body." + field.Location
		p.Errors = append(p.Errors, field)
	}
	return p
}

func (a *handlers) mcp() http.HandlerFunc {
	var calls mcp.Calls // finds calls on other servers; with SQLite there is only one server
	if a.Store != nil && a.Store.Engine() == "postgres" {
		calls = a.Store.ToolCalls()
	}
	h := mcp.Handler(mcp.Options{
		Tools: a.Tools, Version: a.Version, Calls: calls,
		Handle: func(r *http.Request) (*engine.Handle, error) {
			return a.projectHandle(r.Context(), r.PathValue("project_id"))
		},
		Caller:  func(r *http.Request) string { p := exchange.Of(r.Context()).Principal; return p.Tenant + " " + p.KeyID },
		Problem: func(ctx context.Context, err error) *api.Problem { return &exchange.ProblemOf(ctx, err).Problem },
		Fail:    exchange.Fail,
	})
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := a.working(r.Context())
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}
}

// working returns the context of a tool call. Its time limit is longer than the time limits of all tools. If the
// request has an Idempotency-Key, the call continues after the client has disconnected: a repeated request gets the
// result, and the tool is called only once.
func (a *handlers) working(ctx context.Context) (context.Context, context.CancelFunc) {
	if exchange.Of(ctx).Effect == "" {
		return context.WithTimeout(ctx, tool.MaxTime+a.RequestTimeout)
	}
	own, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if why := context.Cause(ctx); why == exchange.ErrShutdown || why == exchange.ErrClaimLost || exchange.KeyEnded(ctx) != nil {
			cut(why)
		}
	})
	own, cancel := context.WithTimeout(own, tool.MaxTime+a.RequestTimeout)
	return own, func() { stop(); cancel(); cut(nil) }
}
