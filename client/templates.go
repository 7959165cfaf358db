package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/berthdev/berth/api"
)

const templatesPath = "/api/v1/templates"

// Templates groups the calls for templates.
type Templates struct{ c *Client }

// List yields the templates of the server, sorted by name.
func (t Templates) List(ctx context.Context) iter.Seq2[api.Template, error] {
	return all[api.Template](ctx, t.c, "list templates", nil, templatesPath)
}

// Get gets one template.
func (t Templates) Get(ctx context.Context, name string) (template api.Template, err error) {
	_, err = t.c.do(ctx, call{op: "get template", method: http.MethodGet, path: path{templatesPath, name}}, &template)
	return template, err
}
