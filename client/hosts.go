package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

const hostsPath = "/api/v1/hosts"

// Hosts yields the machines with local sandboxes. It needs an admin key of the tenant default.
func (c *Client) Hosts(ctx context.Context) iter.Seq2[api.Host, error] {
	return all[api.Host](ctx, c, "list hosts", nil, hostsPath)
}

// ForgetHost removes a machine that will not come back. Its sandboxes can then start on other machines, from their
// last version. If the machine's server was seen recently, ForgetHost fails unless force is true.
func (c *Client) ForgetHost(ctx context.Context, name string, force bool) (done api.ForgottenHost, err error) {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	_, err = c.do(ctx, call{op: "forget host", method: http.MethodPost, path: path{hostsPath, name, "forget"}, query: q}, &done)
	return done, err
}
