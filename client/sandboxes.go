package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/berthdev/berth/api"
)

const sandboxesPath = "/api/v1/sandboxes"

// Sandboxes groups the calls for sandboxes. The parameter ref is the id or the name of a sandbox.
type Sandboxes struct{ c *Client }

// Create creates a sandbox if there is none with the id or name of want, and returns once it runs. made reports
// whether the sandbox is new. Create can be repeated safely.
func (s Sandboxes) Create(ctx context.Context, want api.CreateSandbox) (sandbox api.Sandbox, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "create sandbox", method: http.MethodPost, path: path{sandboxesPath}, body: want}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// Get gets one sandbox.
func (s Sandboxes) Get(ctx context.Context, ref string) (sandbox api.Sandbox, err error) {
	_, err = s.c.do(ctx, call{op: "get sandbox", method: http.MethodGet, path: path{sandboxesPath, ref}}, &sandbox)
	return sandbox, err
}

// SandboxFilter selects sandboxes. Empty fields select all.
type SandboxFilter struct {
	State, OwnerKind, Template, Driver string
	Deleted                            bool // selects deleted sandboxes only
	Live                               bool // adds frozen and oom_kills to running sandboxes
}

func (f SandboxFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": f.State, "owner_kind": f.OwnerKind, "template": f.Template, "driver": f.Driver,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Deleted {
		q.Set("deleted", "true")
	}
	if f.Live {
		q.Set("live", "true")
	}
	return q
}

// List yields the sandboxes of the key's tenant, newest first.
func (s Sandboxes) List(ctx context.Context, filter SandboxFilter) iter.Seq2[api.Sandbox, error] {
	return all[api.Sandbox](ctx, s.c, "list sandboxes", filter.query(), sandboxesPath)
}

// Stats gets the resource usage of a running sandbox. It does not start the sandbox and does not count as a use.
func (s Sandboxes) Stats(ctx context.Context, ref string) (stats api.SandboxStats, err error) {
	_, err = s.c.do(ctx, call{op: "measure sandbox", method: http.MethodGet, path: path{sandboxesPath, ref, "stats"}}, &stats)
	return stats, err
}

// Ports lists the TCP ports that listen in a running sandbox.
func (s Sandboxes) Ports(ctx context.Context, ref string) ([]api.OpenPort, error) {
	var list api.List[api.OpenPort]
	_, err := s.c.do(ctx, call{op: "list ports", method: http.MethodGet, path: path{sandboxesPath, ref, "ports"}}, &list)
	return list.Items, err
}

// History yields the transitions of a sandbox, newest first.
func (s Sandboxes) History(ctx context.Context, ref string) iter.Seq2[api.Transition, error] {
	return all[api.Transition](ctx, s.c, "read history", nil, sandboxesPath, ref, "history")
}

// Delete deletes a sandbox permanently and returns once it is gone. If the context ends before, the server finishes
// the delete in the background.
func (s Sandboxes) Delete(ctx context.Context, ref string, opts ...EndOption) error {
	return s.c.end(ctx, "delete sandbox", opts, sandboxesPath, ref)
}

// end deletes a sandbox, or a resource that owns one, and waits until the sandbox is gone.
func (c *Client) end(ctx context.Context, op string, opts []EndOption, at ...string) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var left struct {
		ID string `json:"id"` // the sandbox's id, also if its owner is deleted
	}
	got, err := c.do(ctx, call{op: op, method: http.MethodDelete, path: at, query: endQuery(opts)}, &left)
	if got.doneBefore(err) {
		return nil
	}
	if err != nil || got.status != http.StatusAccepted {
		return err
	}
	if err := c.Sandboxes.gone(ctx, left.ID); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// gone returns once the sandbox is deleted.
func (s Sandboxes) gone(ctx context.Context, id string) error {
	for pause(ctx, deletePoll) {
		_, err := s.Get(ctx, id)
		switch {
		case deleted(err):
			return nil
		case err != nil:
			return err
		}
	}
	p := api.NewProblem(api.CodeTimeout, id+" is still being deleted; the server goes on with it by itself")
	if cause := context.Cause(ctx); cause != nil {
		return &fault{p, cause}
	}
	return p
}

const deletePoll = 500 * time.Millisecond

// remove deletes one resource. If the answer of an earlier attempt was lost and the resource is gone now, it returns
// nil.
func (c *Client) remove(ctx context.Context, op string, at ...string) error {
	got, err := c.do(ctx, call{op: op, method: http.MethodDelete, path: at}, nil)
	if got.doneBefore(err) {
		return nil
	}
	return err
}

func deleted(err error) bool { return hasCode(err, api.CodeDeleted) }

// doneBefore reports whether err means that an earlier attempt has already deleted the resource. A deleted resource
// is not found by its name any more.
func (r reply) doneBefore(err error) bool {
	return r.attempts > 1 && deleted(err) || r.lost && hasCode(err, api.CodeNotFound)
}

func hasCode(err error, code api.Code) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == code
}
