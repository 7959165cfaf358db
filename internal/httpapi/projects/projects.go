package projects

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
)

// projectOp returns an operation on projects.
func projectOp(method, path, name string, scope api.Scope, summary string, problems ...api.Code) rest.Operation {
	return rest.Operation{
		Route: exchange.Route{Method: method, Path: path, Name: name, Scope: scope},
		Tag:   "Projects", Summary: summary, Problems: problems,
	}
}

func (a *handlers) addProjects() {
	const one = exchange.OneProject + "/sandbox"
	ensure := projectOp(http.MethodPost, one, "ensure-project-sandbox", api.ScopeWrite, "Get or create the project's sandbox and start it",
		append([]api.Code{api.CodeSpecMismatch, api.CodeDeleting, api.CodeUnknownTemplate, api.CodeUnknownProfile}, access.EnsureProblems...)...)
	ensure.Description = "The first request creates the project. Returns when the sandbox is running: 201 for a new sandbox, 200 for an existing one. The request's fields must match it. " +
		"The caller chooses the project's id: 1 to 255 printable bytes, percent-encoded in the path, slashes included. 'sandboxes' and segments of dots are not allowed."
	ensure.Status, ensure.Also = http.StatusCreated, map[int]string{http.StatusOK: "The project already had a sandbox"}
	rest.Serve(a.Spec, ensure, a.ensureProject)
	rest.Serve(a.Spec, projectOp(http.MethodGet, one, "get-project-sandbox", api.ScopeRead, "Get the project's sandbox", api.CodeInvalidID, api.CodeNotFound), a.getProject)
	rest.Serve(a.Spec, projectOp(http.MethodGet, exchange.ProjectsPath+"/sandboxes", "list-project-sandboxes", api.ScopeRead, "List the sandboxes of projects, newest first", api.CodeInvalidCursor), a.listProjects)
	a.addProjectLife(one)
	a.addProjectTools(one)
}

// inProjects returns the projects that the caller may see.
func (a *handlers) inProjects(ctx context.Context) project.Projects {
	who, _ := auth.PrincipalFrom(ctx)
	return a.Projects.Of(a.In(ctx), who.Actor(), who.AccountID)
}

// ByProject is the path parameter of routes for one project.
type ByProject struct {
	ProjectID string `path:"project_id" doc:"The project's id, percent-encoded"`
}

type ensureProject struct {
	ByProject
	access.MassDelete
	Body *api.EnsureProject
}

func (a *handlers) ensureProject(ctx context.Context, in *ensureProject) (*rest.Created[api.ProjectSandbox], error) {
	want := api.EnsureProject{}
	if in.Body != nil {
		want = *in.Body
	}
	access.HideEnv(ctx, want.Env)
	spec := sandbox.Spec{Template: want.Template, Driver: want.Driver, Profile: want.Profile, Env: want.Env, Metadata: want.Metadata}
	if err := access.CheckSpec(spec); err != nil {
		return nil, err
	}
	err := a.MergeBeforeStart(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) {
		return a.inProjects(ctx).Get(ctx, in.ProjectID)
	})
	if err != nil {
		return nil, err
	}
	id := exchange.EffectID(ctx)
	s, created, err := a.inProjects(ctx).Ensure(ctx, in.ProjectID, spec, id)
	if err != nil {
		return nil, err
	}
	access.SetNotice(ctx, s.ActiveBefore, s)
	out := &rest.Created[api.ProjectSandbox]{Status: http.StatusOK, Location: exchange.ProjectsPath + "/" + url.PathEscape(in.ProjectID) + "/sandbox", Body: projectOut(s)}
	// The id is new for this request: only the request, or an earlier attempt whose answer was lost, can have used
	// it.
	if created || s.ID == id {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (a *handlers) getProject(ctx context.Context, in *ByProject) (*rest.Reply[api.ProjectSandbox], error) {
	return projectReply(a.inProjects(ctx).Get(ctx, in.ProjectID))
}

type listProjects struct {
	Status string `query:"status" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR" doc:"Only sandboxes with this status"`
	rest.Paging
}

func (a *handlers) listProjects(ctx context.Context, in *listProjects) (*rest.Reply[api.List[api.ProjectSandbox]], error) {
	page, err := in.StorePage("projects")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.inProjects(ctx).List(ctx, in.Status, page)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("projects", rows, next, projectOut), nil
}

func projectReply(s sandbox.Sandbox, err error) (*rest.Reply[api.ProjectSandbox], error) {
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.ProjectSandbox]{Body: projectOut(s)}, nil
}

func projectOut(s sandbox.Sandbox) api.ProjectSandbox {
	out := api.ProjectSandbox{
		ID: s.ID, ProjectID: s.Owner.ID, TenantID: s.Owner.Tenant, SandboxID: s.ID,
		Status: s.State.ProjectStatus(), State: string(s.State),
		Template: s.Spec.Template, Driver: s.Spec.Driver, Profile: s.Spec.Profile, Metadata: s.Spec.Metadata,
		CreatedAt: s.CreatedAt, StartedAt: access.TimePtr(s.StartedAt), LastAccessedAt: s.ActiveAt, HealthCheckedAt: access.TimePtr(s.ProbedAt),
		Saved: engine.ShowSaved(s),
	}
	if f := s.Failure; f != nil {
		out.ErrorMessage = engine.HideEnv(s.Spec.Env)(cmp.Or(f.Message, string(f.Code)))
	}
	return out
}
