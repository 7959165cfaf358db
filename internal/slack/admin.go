package slack

import (
	"context"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
)

// Admin is a Service as the HTTP API uses it.
type Admin struct{ *Service }

// Connect checks the tokens of an app and connects its workspace to a tenant.
func (a Admin) Connect(ctx context.Context, tenant store.TenantID, c api.ConnectSlack) (api.SlackWorkspace, error) {
	w, err := a.Service.Connect(ctx, store.SlackWorkspace{
		Tenant: tenant, Template: c.Template, Accounts: c.CreateAccounts == nil || *c.CreateAccounts,
		Tokens: store.SlackTokens{Bot: c.BotToken, App: c.AppToken, Signing: c.SigningSecret},
	})
	return a.shown(w), err
}

// List returns the workspaces of a tenant.
func (a Admin) List(ctx context.Context, tenant store.TenantID) ([]api.SlackWorkspace, error) {
	list, err := a.Service.List(ctx, tenant)
	out := make([]api.SlackWorkspace, len(list))
	for i, w := range list {
		out[i] = a.shown(w)
	}
	return out, err
}

// Check asks Slack whether the app works in a workspace.
func (a Admin) Check(ctx context.Context, tenant store.TenantID, team string) (api.SlackWorkspace, error) {
	r, err := a.Service.Check(ctx, tenant, team)
	w := a.shown(r.Workspace)
	w.Missing, w.Problem = r.Missing, r.Problem
	return w, err
}

// shown returns a workspace without its tokens.
func (a Admin) shown(w store.SlackWorkspace) api.SlackWorkspace {
	a.mu.Lock()
	connected := a.sockets[w.Team] != nil
	a.mu.Unlock()
	out := api.SlackWorkspace{
		TeamID: w.Team, Name: w.Name, URL: w.URL, Template: w.Template, Accounts: w.Accounts, Mode: "socket", Connected: connected, Problem: w.Failure,
		CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
	if w.Tokens.App == "" && w.Problem == nil {
		out.Mode = "events"
	}
	if w.Problem != nil {
		out.Problem = w.Problem.Error()
	}
	return out
}
