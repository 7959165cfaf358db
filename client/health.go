package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Ready asks whether the server can do its work. A server that says no answers too: look at Status.
func (c *Client) Ready(ctx context.Context) (ready api.Ready, err error) {
	refusal := func(status int) bool { return status == http.StatusServiceUnavailable }
	_, err = c.do(ctx, call{op: "ask readiness", method: http.MethodGet, path: path{"/readyz"}, accept: refusal}, &ready)
	return ready, err
}

// Version asks which version the server is.
func (c *Client) Version(ctx context.Context) (string, error) {
	var health api.Health
	_, err := c.do(ctx, call{op: "ask version", method: http.MethodGet, path: path{"/healthz"}}, &health)
	return health.Version, err
}
