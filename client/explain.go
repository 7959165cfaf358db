package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Explain gets the reasons for a sandbox's state and its next planned steps. A deleted sandbox can be named by its
// id.
func (s Sandboxes) Explain(ctx context.Context, ref string) (why api.Explanation, err error) {
	_, err = s.c.do(ctx, call{op: "explain sandbox", method: http.MethodGet, path: path{sandboxesPath, ref, "explain"}}, &why)
	return why, err
}

// Sweep compares the instances of the server's drivers with its records, and ends leftovers. It needs an admin key
// of the tenant default.
func (c *Client) Sweep(ctx context.Context, want api.SweepRequest) (sweep api.Sweep, err error) {
	_, err = c.do(ctx, call{op: "sweep", method: http.MethodPost, path: path{"/api/v1/sweep"}, body: want}, &sweep)
	return sweep, err
}
