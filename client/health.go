package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Ready gets the readiness of the server. It returns no error if the server is not ready: check Status.
func (c *Client) Ready(ctx context.Context) (ready api.Ready, err error) {
	refusal := func(status int) bool { return status == http.StatusServiceUnavailable }
	_, err = c.do(ctx, call{op: "ask readiness", method: http.MethodGet, path: path{"/readyz"}, accept: refusal}, &ready)
	return ready, err
}

// Version gets the version of the server.
func (c *Client) Version(ctx context.Context) (string, error) {
	var health api.Health
	_, err := c.do(ctx, call{op: "ask version", method: http.MethodGet, path: path{"/healthz"}}, &health)
	return health.Version, err
}
