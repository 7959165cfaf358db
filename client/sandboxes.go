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

// Sandboxes are the calls on sandboxes. Wherever one is named, its id or its name will do.
type Sandboxes struct{ c *Client }

// Create asks for a sandbox and returns once it runs. Made is false when one with that id or name
// was there already; asking again is therefore always safe.
func (s Sandboxes) Create(ctx context.Context, want api.CreateSandbox) (sandbox api.Sandbox, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "create sandbox", method: http.MethodPost, path: path{sandboxesPath}, body: want}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// Get reads one sandbox.
func (s Sandboxes) Get(ctx context.Context, ref string) (sandbox api.Sandbox, err error) {
	_, err = s.c.do(ctx, call{op: "get sandbox", method: http.MethodGet, path: path{sandboxesPath, ref}}, &sandbox)
	return sandbox, err
}

// SandboxFilter narrows a list. Empty fields do not narrow.
type SandboxFilter struct{ State, OwnerKind, Template, Driver string }

func (f SandboxFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": f.State, "owner_kind": f.OwnerKind, "template": f.Template, "driver": f.Driver,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// List reads the sandboxes of the key's tenant, newest first, in pages as the reader goes on.
func (s Sandboxes) List(ctx context.Context, filter SandboxFilter) iter.Seq2[api.Sandbox, error] {
	return all[api.Sandbox](ctx, s.c, "list sandboxes", filter.query(), sandboxesPath)
}

// History reads what happened to a sandbox, newest first, in pages as the reader goes on.
func (s Sandboxes) History(ctx context.Context, ref string) iter.Seq2[api.Transition, error] {
	return all[api.Transition](ctx, s.c, "read history", nil, sandboxesPath, ref, "history")
}

// Delete ends a sandbox for good and returns once nothing of it is left. The server goes on with it
// by itself when the context ends first.
func (s Sandboxes) Delete(ctx context.Context, ref string, opts ...EndOption) error {
	return s.c.end(ctx, "delete sandbox", opts, sandboxesPath, ref)
}

// end deletes a sandbox, or what has one, and waits until the sandbox is gone.
func (c *Client) end(ctx context.Context, op string, opts []EndOption, at ...string) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var left struct {
		ID string `json:"id"` // the sandbox's, also in what has one
	}
	got, err := c.do(ctx, call{op: op, method: http.MethodDelete, path: at, query: ending(opts)}, &left)
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

// gone waits until the sandbox is deleted.
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

// remove deletes one thing. When an earlier attempt's answer was lost, finding it deleted is the
// success that was asked for.
func (c *Client) remove(ctx context.Context, op string, at ...string) error {
	got, err := c.do(ctx, call{op: op, method: http.MethodDelete, path: at}, nil)
	if got.doneBefore(err) {
		return nil
	}
	return err
}

func deleted(err error) bool { return hasCode(err, api.CodeDeleted) }

// doneBefore reports whether a delete was refused because an earlier attempt at it was done. What had a
// name is not found by it any more.
func (r reply) doneBefore(err error) bool {
	return r.attempts > 1 && deleted(err) || r.lost && hasCode(err, api.CodeNotFound)
}

func hasCode(err error, code api.Code) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == code
}
