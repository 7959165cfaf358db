package tenants

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
)

// Slack connects Slack workspaces and receives their events.
type Slack interface {
	Connect(ctx context.Context, tenant store.TenantID, c api.ConnectSlack) (api.SlackWorkspace, error)
	List(ctx context.Context, tenant store.TenantID) ([]api.SlackWorkspace, error)
	Check(ctx context.Context, tenant store.TenantID, team string) (api.SlackWorkspace, error)
	Disconnect(ctx context.Context, tenant store.TenantID, team string) error
	ServeEvents(w http.ResponseWriter, r *http.Request)
}

const (
	slackPath       = "/api/v1/slack/workspaces"
	slackEventsPath = "/slack/events"
)

func (a *handlers) addSlack() {
	op := func(method, path, name, summary string, problems ...api.Code) rest.Operation {
		return rest.Operation{
			Route: exchange.Route{Method: method, Path: slackPath + path, Name: name, Scope: api.ScopeAdmin},
			Tag:   "Slack", Summary: summary, Problems: append([]api.Code{api.CodeRuntimeDisabled}, problems...),
		}
	}
	connect := op(http.MethodPost, "", "connect-slack", "Connect a Slack workspace", api.CodeConflict, api.CodeSlackUnavailable, api.CodeUnknownTemplate)
	connect.Description = "Asks Slack about the tokens first. A workspace that is connected already gets the new tokens and template. No answer contains the tokens."
	rest.Serve(a.Spec, connect, a.connectSlack)
	rest.Serve(a.Spec, op(http.MethodGet, "", "list-slack", "List the connected Slack workspaces", api.CodeInvalidCursor), a.listSlack)
	rest.Serve(a.Spec, op(http.MethodPost, "/{team_id}/check", "check-slack", "Check whether the app works in a Slack workspace", api.CodeNotFound, api.CodeSlackUnavailable), a.checkSlack)
	rest.Serve(a.Spec, op(http.MethodDelete, "/{team_id}", "disconnect-slack", "Disconnect a Slack workspace", api.CodeNotFound), a.disconnectSlack)
	a.Routes.Handle(exchange.Route{Method: http.MethodPost, Path: slackEventsPath, Name: "slack-events", Hidden: true, Form: true, Raw: true}, a.slackEvents)
}

// slackOn returns the part that speaks with Slack.
func (a *handlers) slackOn() (Slack, error) {
	if a.Slack == nil {
		return nil, fault.Errorf("find Slack", api.CodeRuntimeDisabled, "this server has no threads, and so no Slack: sandbox_runtime_enabled is false")
	}
	return a.Slack, nil
}

// SlackTeam is the path parameter of routes for one Slack workspace.
type SlackTeam struct {
	TeamID string `path:"team_id" maxLength:"64" doc:"Slack's id of the workspace" example:"T024BE7LD"`
}

func (a *handlers) connectSlack(ctx context.Context, in *struct{ Body api.ConnectSlack }) (*rest.Reply[api.SlackWorkspace], error) {
	s, err := a.slackOn()
	if err == nil && in.Body.Template != "" {
		err = a.Engine.CheckTemplate(string(a.In(ctx).Tenant()), in.Body.Template)
	}
	if err != nil {
		return nil, err
	}
	a.Redactor.Add(in.Body.BotToken)
	w, err := s.Connect(ctx, a.In(ctx).Tenant(), in.Body)
	return &rest.Reply[api.SlackWorkspace]{Body: w}, err
}

func (a *handlers) listSlack(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.SlackWorkspace]], error) {
	s, err := a.slackOn()
	if err != nil {
		return nil, err
	}
	c, err := rest.ParseCursor("slack", in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := s.List(ctx, a.In(ctx).Tenant())
	if err != nil {
		return nil, err
	}
	from := int(min(c.At, int64(len(all))))
	to := min(from+in.Limit, len(all))
	out := &rest.Reply[api.List[api.SlackWorkspace]]{Body: api.List[api.SlackWorkspace]{Items: all[from:to]}}
	if to < len(all) {
		out.Body.NextCursor = rest.Cursor{List: "slack", At: int64(to), ID: noID}.String()
	}
	return out, nil
}

func (a *handlers) checkSlack(ctx context.Context, in *SlackTeam) (*rest.Reply[api.SlackWorkspace], error) {
	s, err := a.slackOn()
	if err != nil {
		return nil, err
	}
	w, err := s.Check(ctx, a.In(ctx).Tenant(), in.TeamID)
	return &rest.Reply[api.SlackWorkspace]{Body: w}, err
}

func (a *handlers) disconnectSlack(ctx context.Context, in *SlackTeam) (*struct{}, error) {
	s, err := a.slackOn()
	if err != nil {
		return nil, err
	}
	return nil, s.Disconnect(ctx, a.In(ctx).Tenant(), in.TeamID)
}

// slackEvents receives events. Slack sends no API key: the request is signed.
func (a *handlers) slackEvents(w http.ResponseWriter, r *http.Request) {
	s, err := a.slackOn()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.ServeEvents(w, r)
}
