package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/berthdev/berth/api"
)

const slackPath = "/api/v1/slack/workspaces"

// Slack groups the calls for Slack workspaces. They need a key with the scope admin.
type Slack struct{ c *Client }

// Connect connects a workspace, or replaces the tokens of a connected one.
func (s Slack) Connect(ctx context.Context, want api.ConnectSlack) (w api.SlackWorkspace, err error) {
	_, err = s.c.do(ctx, call{op: "connect Slack", method: http.MethodPost, path: path{slackPath}, body: want}, &w)
	return w, err
}

// List yields the connected workspaces of the tenant.
func (s Slack) List(ctx context.Context) iter.Seq2[api.SlackWorkspace, error] {
	return all[api.SlackWorkspace](ctx, s.c, "list Slack workspaces", nil, slackPath)
}

// Check asks Slack whether the app works in a workspace.
func (s Slack) Check(ctx context.Context, team string) (w api.SlackWorkspace, err error) {
	_, err = s.c.do(ctx, call{op: "check Slack", method: http.MethodPost, path: path{slackPath, team, "check"}}, &w)
	return w, err
}

// Disconnect disconnects a workspace.
func (s Slack) Disconnect(ctx context.Context, team string) error {
	return s.c.remove(ctx, "disconnect Slack", slackPath, team)
}
