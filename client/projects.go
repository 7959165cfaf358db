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

// Projects are the calls on projects, each of which has one sandbox. A project is named by an id of the
// caller's own.
type Projects struct{ c *Client }

// Get reads the project's sandbox. It is not found until somebody ensures it.
func (p Projects) Get(ctx context.Context, id string) (sandbox api.ProjectSandbox, err error) {
	_, err = p.c.do(ctx, call{op: "get project", method: http.MethodGet, path: sandboxOf(id)}, &sandbox)
	return sandbox, err
}

// Ensure asks for the project's sandbox and returns once it runs. Made is false when the project had
// one already; asking again is therefore always safe.
func (p Projects) Ensure(ctx context.Context, id string, want api.EnsureProject, opts ...StartOption) (sandbox api.ProjectSandbox, made bool, err error) {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	got, err := p.c.do(ctx, call{op: "ensure project", method: http.MethodPost, path: sandboxOf(id), query: q, body: want}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// Health looks at what is really there, and changes nothing.
func (p Projects) Health(ctx context.Context, id string) (health api.ProjectHealth, err error) {
	_, err = p.c.do(ctx, call{op: "check project", method: http.MethodGet, path: sandboxOf(id, "health")}, &health)
	return health, err
}

// Tools lists what Execute can do in the project's sandbox.
func (p Projects) Tools(ctx context.Context, id string) ([]api.Tool, error) {
	list, err := p.ToolList(ctx, id)
	return list.Items, err
}

// ToolList is Tools with the MCP servers of the project's template, and why tools of theirs are missing.
func (p Projects) ToolList(ctx context.Context, id string) (list api.ToolList, err error) {
	_, err = p.c.do(ctx, call{op: "list tools", method: http.MethodGet, path: sandboxOf(id, "tools")}, &list)
	return list, err
}

// Execute uses a tool in the project's sandbox, which is made if there is none. A nil error is no
// success: the result may say that the tool failed.
func (p Projects) Execute(ctx context.Context, id string, want api.ExecuteTool) (result api.ToolResult, err error) {
	ctx, cancel := p.c.lasting(ctx, want.Timeout)
	defer cancel()
	_, err = p.c.do(ctx, call{op: "use tool", method: http.MethodPost, path: sandboxOf(id, "execute"), body: want}, &result)
	return result, err
}

// lasting gives a context without a deadline one that leaves so many seconds of work their time; none
// are as many as a server allows.
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

// Terminate ends the instance of the project's sandbox and its files, after a last save where the
// server can do that. The project keeps its sandbox, and its next use makes a new instance.
func (p Projects) Terminate(ctx context.Context, id string, opts ...EndOption) (sandbox api.ProjectSandbox, err error) {
	_, err = p.c.do(ctx, call{op: "terminate project", method: http.MethodDelete, path: sandboxOf(id), query: ending(opts)}, &sandbox)
	return sandbox, err
}

// Sync compares the record of the project's sandbox with what is really there, and changes neither.
func (p Projects) Sync(ctx context.Context, id string) (sync api.ProjectSync, err error) {
	_, err = p.c.do(ctx, call{op: "compare project", method: http.MethodGet, path: sandboxOf(id, "sync")}, &sync)
	return sync, err
}

// Reconcile brings the record of the project's sandbox and what is really there together.
func (p Projects) Reconcile(ctx context.Context, id string) (sync api.ProjectSync, err error) {
	_, err = p.c.do(ctx, call{op: "reconcile project", method: http.MethodPost, path: sandboxOf(id, "sync")}, &sync)
	return sync, err
}

// ProjectFilter narrows a list. Empty fields do not narrow.
type ProjectFilter struct{ Status string }

// List reads the sandboxes of the projects of the key's tenant, newest first, in pages as the reader
// goes on.
func (p Projects) List(ctx context.Context, filter ProjectFilter) iter.Seq2[api.ProjectSandbox, error] {
	q := url.Values{}
	if filter.Status != "" {
		q.Set("status", filter.Status)
	}
	return all[api.ProjectSandbox](ctx, p.c, "list projects", q, projectsPath, "sandboxes")
}

// Cleanup lets go of the sandboxes of projects that nobody used for a while. It needs a key with the
// scope admin, and touches the key's tenant alone.
func (p Projects) Cleanup(ctx context.Context, want api.CleanupProjects) (done api.ProjectCleanup, err error) {
	_, err = p.c.do(ctx, call{op: "clean up projects", method: http.MethodPost, path: path{projectsPath, "sandboxes", "cleanup"}, body: want}, &done)
	return done, err
}

// Delete ends a project and its sandbox for good and returns once nothing is left of it. The server
// goes on with it by itself when the context ends first.
func (p Projects) Delete(ctx context.Context, id string, opts ...EndOption) error {
	return p.c.end(ctx, "delete project", opts, projectsPath, id)
}

func sandboxOf(id string, more ...string) path {
	return append(path{projectsPath, id, "sandbox"}, more...)
}
