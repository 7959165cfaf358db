package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
)

// An EndOption configures the end of a sandbox, a project or a conversation.
type EndOption func(url.Values)

// SkipSave omits the last save of the workspace.
func SkipSave() EndOption { return func(q url.Values) { q.Set("sync", "false") } }

func endQuery(opts []EndOption) url.Values {
	q := url.Values{}
	for _, opt := range opts {
		opt(q)
	}
	return q
}

// Terminate removes the sandbox's instance with its files. If the server can save the workspace, it saves a last
// version first. The sandbox stays, and its next use makes a new instance.
func (s Sandboxes) Terminate(ctx context.Context, ref string, opts ...EndOption) (sandbox api.Sandbox, err error) {
	_, err = s.c.do(ctx, call{op: "terminate sandbox", method: http.MethodPost, path: path{sandboxesPath, ref, "terminate"}, query: endQuery(opts)}, &sandbox)
	return sandbox, err
}

// Archive saves the sandbox's workspace and ends its instance. The next use restores the workspace.
func (s Sandboxes) Archive(ctx context.Context, ref string) (api.Sandbox, error) {
	return s.changeState(ctx, ref, "archive")
}
