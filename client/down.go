package client

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
)

// Down stops every sandbox, of all tenants, on the machine of the server, and keeps their files.
func (c *Client) Down(ctx context.Context) (done api.Down, err error) {
	_, err = c.do(ctx, call{op: "stop all sandboxes", method: http.MethodPost, path: path{"/api/v1/down"}}, &done)
	return done, err
}
