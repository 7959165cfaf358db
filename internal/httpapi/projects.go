package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/project"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	projectsPath = "/api/v1/projects"
	oneProject   = projectsPath + "/{project_id}"
)

// projectOp begins an operation on projects.
func projectOp(method, path, name string, scope api.Scope, summary string, problems ...api.Code) operation {
	return operation{
		route: route{Method: method, Path: path, Name: name, Scope: scope},
		Tag:   "Projects", Summary: summary, Problems: problems,
	}
}

// ensuring are the problems of whatever makes a project's sandbox run.
var ensuring = []api.Code{
	api.CodeInvalidID, api.CodeUnknownDriver, api.CodeQuotaExceeded, api.CodeWrongHost, api.CodeUnsupported,
	api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy,
}

func (a *Handler) addProjects() {
	const one = oneProject + "/sandbox"
	ensure := projectOp(http.MethodPost, one, "ensure-project-sandbox", api.ScopeWrite, "Get or create the project's sandbox, running",
		append([]api.Code{api.CodeSpecMismatch, api.CodeDeleting, api.CodeUnknownTemplate, api.CodeUnknownProfile}, ensuring...)...)
	ensure.Description = "The first one makes the project. Answers once the sandbox is running: 201 if it is new, 200 if the project had it. The fields given must agree with it. " +
		"A project's id is your own: 1 to 255 printable bytes, percent-encoded in the path, an encoded slash included; 'sandboxes' and parts made of dots are not possible."
	ensure.Status, ensure.Also = http.StatusCreated, map[int]string{http.StatusOK: "The project had it already"}
	serve(a, ensure, a.ensureProject)
	serve(a, projectOp(http.MethodGet, one, "get-project-sandbox", api.ScopeRead, "Read the project's sandbox", api.CodeInvalidID, api.CodeNotFound), a.getProject)
	serve(a, projectOp(http.MethodGet, projectsPath+"/sandboxes", "list-project-sandboxes", api.ScopeRead, "List the sandboxes of the tenant's projects, newest first", api.CodeInvalidCursor), a.listProjects)
	a.addProjectLife(one)
	a.addProjectTools(one)
}

// inProjects returns the projects that the caller may see.
func (a *Handler) inProjects(ctx context.Context) project.Projects {
	who, _ := auth.PrincipalFrom(ctx)
	return a.projects.Of(a.in(ctx), who.Actor(), who.AccountID)
}

// ByProject names a project in a path.
type ByProject struct {
	ProjectID string `path:"project_id" doc:"The project's id, percent-encoded"`
}

type ensureProject struct {
	ByProject
	MassDelete
	Body *api.EnsureProject
}

func (a *Handler) ensureProject(ctx context.Context, in *ensureProject) (*made[api.ProjectSandbox], error) {
	want := api.EnsureProject{}
	if in.Body != nil {
		want = *in.Body
	}
	hideEnv(ctx, want.Env)
	spec := sandbox.Spec{Template: want.Template, Driver: want.Driver, Profile: want.Profile, Env: want.Env, Metadata: want.Metadata}
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	err := a.mergeOwn(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) {
		return a.inProjects(ctx).Get(ctx, in.ProjectID)
	})
	if err != nil {
		return nil, err
	}
	id := effectID(ctx)
	s, created, err := a.inProjects(ctx).Ensure(ctx, in.ProjectID, spec, id)
	if err != nil {
		return nil, err
	}
	out := &made[api.ProjectSandbox]{Status: http.StatusOK, Location: projectsPath + "/" + url.PathEscape(in.ProjectID) + "/sandbox", Body: projectOut(s)}
	// Only this request, or an attempt at it whose answer was lost, can have made the id it chose.
	if created || s.ID == id {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (a *Handler) getProject(ctx context.Context, in *ByProject) (*reply[api.ProjectSandbox], error) {
	return projectReply(a.inProjects(ctx).Get(ctx, in.ProjectID))
}

type listProjects struct {
	Status string `query:"status" enum:"PENDING,CREATING,RUNNING,UNHEALTHY,STOPPED,TERMINATED,ERROR" doc:"Only those of this status"`
	Paging
}

func (a *Handler) listProjects(ctx context.Context, in *listProjects) (*reply[api.List[api.ProjectSandbox]], error) {
	page, err := in.storePage("projects")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.inProjects(ctx).List(ctx, in.Status, page)
	if err != nil {
		return nil, err
	}
	return listOf("projects", rows, next, projectOut), nil
}

func projectReply(s sandbox.Sandbox, err error) (*reply[api.ProjectSandbox], error) {
	if err != nil {
		return nil, err
	}
	return &reply[api.ProjectSandbox]{projectOut(s)}, nil
}

func projectOut(s sandbox.Sandbox) api.ProjectSandbox {
	out := api.ProjectSandbox{
		ID: s.ID, ProjectID: s.Owner.ID, TenantID: s.Owner.Tenant, SandboxID: s.ID,
		Status: s.State.ProjectStatus(), State: string(s.State),
		Template: s.Spec.Template, Driver: s.Spec.Driver, Profile: s.Spec.Profile, Metadata: s.Spec.Metadata,
		CreatedAt: s.CreatedAt, StartedAt: moment(s.StartedAt), LastAccessedAt: s.ActiveAt, HealthCheckedAt: moment(s.ProbedAt),
		Saved: savedOut(s),
	}
	if f := s.Failure; f != nil {
		out.ErrorMessage = withoutEnv(s.Spec.Env)(cmp.Or(f.Message, string(f.Code)))
	}
	return out
}
