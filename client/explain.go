package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Explain reads why a sandbox is as it is, and what will happen to it. A deleted one is found by its id.
func (s Sandboxes) Explain(ctx context.Context, ref string) (why api.Explanation, err error) {
	_, err = s.c.do(ctx, call{op: "explain sandbox", method: http.MethodGet, path: path{sandboxesPath, ref, "explain"}}, &why)
	return why, err
}

// Sweep compares what the server's drivers have with what its records say, and does what is to be done
// about it. It needs an admin key of the tenant default.
func (c *Client) Sweep(ctx context.Context, want api.SweepRequest) (sweep api.Sweep, err error) {
	_, err = c.do(ctx, call{op: "sweep", method: http.MethodPost, path: path{"/api/v1/sweep"}, body: want}, &sweep)
	return sweep, err
}
