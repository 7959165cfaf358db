package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/berthdev/berth/api"
)

const projectsPath = "/api/v1/projects"

// Projects groups the calls for projects. Each project has one sandbox. The caller chooses the ids of projects.
type Projects struct{ c *Client }

// Get gets the project's sandbox. It fails with not_found if the sandbox was not created yet.
func (p Projects) Get(ctx context.Context, id string) (sandbox api.ProjectSandbox, err error) {
	_, err = p.c.do(ctx, call{op: "get project", method: http.MethodGet, path: sandboxOf(id)}, &sandbox)
	return sandbox, err
}

// Ensure creates the project's sandbox if there is none, and returns once it runs. made reports whether the sandbox
// is new. Ensure can be repeated safely.
func (p Projects) Ensure(ctx context.Context, id string, want api.EnsureProject, opts ...StartOption) (sandbox api.ProjectSandbox, made bool, err error) {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	got, err := p.c.do(ctx, call{op: "ensure project", method: http.MethodPost, path: sandboxOf(id), query: q, body: want}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// Health inspects the sandbox at its driver and changes nothing.
func (p Projects) Health(ctx context.Context, id string) (health api.ProjectHealth, err error) {
	_, err = p.c.do(ctx, call{op: "check project", method: http.MethodGet, path: sandboxOf(id, "health")}, &health)
	return health, err
}

// Tools lists the tools that Execute can call in the project's sandbox.
func (p Projects) Tools(ctx context.Context, id string) ([]api.Tool, error) {
	list, err := p.ToolList(ctx, id)
	return list.Items, err
}

// ToolList returns the tools, the MCP servers of the project's template, and the reasons why tools are missing.
func (p Projects) ToolList(ctx context.Context, id string) (list api.ToolList, err error) {
	_, err = p.c.do(ctx, call{op: "list tools", method: http.MethodGet, path: sandboxOf(id, "tools")}, &list)
	return list, err
}

// Execute calls a tool in the project's sandbox, which is created if there is none. If the tool itself fails, the
// error is nil and the result's IsError is set.
func (p Projects) Execute(ctx context.Context, id string, want api.ExecuteTool) (result api.ToolResult, err error) {
	ctx, cancel := p.c.lasting(ctx, want.Timeout)
	defer cancel()
	_, err = p.c.do(ctx, call{op: "use tool", method: http.MethodPost, path: sandboxOf(id, "execute"), body: want}, &result)
	return result, err
}

// lasting adds a deadline to a context without one: the client's timeout plus the given seconds of work. Zero seconds
// mean the longest time that a server allows, which is also the maximum.
func (c *Client) lasting(ctx context.Context, seconds float64) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout <= 0 {
		return ctx, func() {}
	}
	work := longestExec
	if seconds > 0 && seconds < work.Seconds() {
		work = time.Duration(seconds * float64(time.Second))
	}
	return context.WithTimeout(ctx, work+c.timeout)
}

// Restart stops the project's sandbox and starts it again.
func (p Projects) Restart(ctx context.Context, id string) (sandbox api.ProjectSandbox, err error) {
	_, err = p.c.do(ctx, call{op: "restart project", method: http.MethodPost, path: sandboxOf(id, "restart")}, &sandbox)
	return sandbox, err
}

// Terminate removes the instance of the project's sandbox with its files. If the server can save the workspace, it
// saves a last version first. The project keeps its sandbox, and the next use makes a new instance.
func (p Projects) Terminate(ctx context.Context, id string, opts ...EndOption) (sandbox api.ProjectSandbox, err error) {
	_, err = p.c.do(ctx, call{op: "terminate project", method: http.MethodDelete, path: sandboxOf(id), query: endQuery(opts)}, &sandbox)
	return sandbox, err
}

// Sync compares the record of the project's sandbox with the sandbox's instance. It changes nothing.
func (p Projects) Sync(ctx context.Context, id string) (sync api.ProjectSync, err error) {
	_, err = p.c.do(ctx, call{op: "compare project", method: http.MethodGet, path: sandboxOf(id, "sync")}, &sync)
	return sync, err
}

// Reconcile removes differences between the record of the project's sandbox and the sandbox's instance.
func (p Projects) Reconcile(ctx context.Context, id string) (sync api.ProjectSync, err error) {
	_, err = p.c.do(ctx, call{op: "reconcile project", method: http.MethodPost, path: sandboxOf(id, "sync")}, &sync)
	return sync, err
}

// ProjectFilter selects projects. An empty field selects all.
type ProjectFilter struct{ Status string }

// List yields the sandboxes of the projects of the key's tenant, newest first.
func (p Projects) List(ctx context.Context, filter ProjectFilter) iter.Seq2[api.ProjectSandbox, error] {
	q := url.Values{}
	if filter.Status != "" {
		q.Set("status", filter.Status)
	}
	return all[api.ProjectSandbox](ctx, p.c, "list projects", q, projectsPath, "sandboxes")
}

// Cleanup terminates or stops the sandboxes of idle projects. It needs a key with the scope admin, and affects only
// the key's tenant.
func (p Projects) Cleanup(ctx context.Context, want api.CleanupProjects) (done api.ProjectCleanup, err error) {
	_, err = p.c.do(ctx, call{op: "clean up projects", method: http.MethodPost, path: path{projectsPath, "sandboxes", "cleanup"}, body: want}, &done)
	return done, err
}

// Delete deletes a project and its sandbox permanently and returns once both are gone. If the context ends before,
// the server finishes the delete in the background.
func (p Projects) Delete(ctx context.Context, id string, opts ...EndOption) error {
	return p.c.end(ctx, "delete project", opts, projectsPath, id)
}

func sandboxOf(id string, more ...string) path {
	return append(path{projectsPath, id, "sandbox"}, more...)
}
