package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// An EndOption changes how something is ended.
type EndOption func(url.Values)

// SkipSave ends without saving a last version of the workspace first.
func SkipSave() EndOption { return func(q url.Values) { q.Set("sync", "false") } }

func ending(opts []EndOption) url.Values {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	return q
}

// Terminate ends the sandbox's instance and its files, after a last save where the server can do that.
// The sandbox stays, and its next use makes a new instance.
func (s Sandboxes) Terminate(ctx context.Context, ref string, opts ...EndOption) (sandbox api.Sandbox, err error) {
	_, err = s.c.do(ctx, call{op: "terminate sandbox", method: http.MethodPost, path: path{sandboxesPath, ref, "terminate"}, query: ending(opts)}, &sandbox)
	return sandbox, err
}

// Archive saves the sandbox's workspace and ends its instance. The next use brings it back.
func (s Sandboxes) Archive(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.turn(ctx, ref, "archive")
}
