package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/berthdev/berth/api"
)

const templatesPath = "/api/v1/templates"

// Templates are the calls on templates.
type Templates struct{ c *Client }

// List reads the templates of the server, by name.
func (t Templates) List(ctx context.Context) iter.Seq2[api.Template, error] {
	return all[api.Template](ctx, t.c, "list templates", nil, templatesPath)
}

// Get reads one template.
func (t Templates) Get(ctx context.Context, name string) (template api.Template, err error) {
	_, err = t.c.do(ctx, call{op: "get template", method: http.MethodGet, path: path{templatesPath, name}}, &template)
	return template, err
}
