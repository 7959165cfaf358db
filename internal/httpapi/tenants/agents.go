package tenants

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const agentsPath = "/api/v1/agents"

func (a *handlers) addAgents() {
	const tag = "Agents"
	one := []api.Code{api.CodeInvalidID, api.CodeUnknownAgent, api.CodeDeleted}
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: agentsPath, Name: "create-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Create an agent", Status: http.StatusCreated, Problems: []api.Code{api.CodeNameTaken, api.CodeUnknownTemplate},
	}, a.createAgent)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: agentsPath, Name: "list-agents", Scope: api.ScopeWrite},
		Tag:   tag, Summary: "List agents, newest first", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listAgents)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: agentsPath + "/{id}", Name: "get-agent", Scope: api.ScopeWrite},
		Tag:   tag, Summary: "Get an agent", Problems: one,
	}, a.getAgent)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPut, Path: agentsPath + "/{id}", Name: "put-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Replace an agent", Problems: append(one, api.CodeNameTaken, api.CodeUnknownTemplate),
	}, a.putAgent)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodDelete, Path: agentsPath + "/{id}", Name: "delete-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Delete an agent", Problems: one,
	}, a.deleteAgent)
}

func (a *handlers) agentRow(ctx context.Context, id string, want api.PutAgent) (store.Agent, error) {
	if err := exchange.CheckPlain("body.name", want.Name); err != nil {
		return store.Agent{}, err
	}
	if err := a.Engine.CheckTemplate(access.TenantOf(ctx), want.Template); err != nil {
		return store.Agent{}, err
	}
	if _, err := chat.ParseOverrides(want.Overrides); err != nil {
		return store.Agent{}, exchange.InvalidField("body.overrides", err.Error())
	}
	return store.Agent{ID: id, Name: want.Name, Template: want.Template, Overrides: want.Overrides}, nil
}

func (a *handlers) createAgent(ctx context.Context, in *struct{ Body api.PutAgent }) (*rest.Created[api.Agent], error) {
	row, err := a.agentRow(ctx, exchange.EffectID(ctx), in.Body)
	if err != nil {
		return nil, err
	}
	agent, err := a.In(ctx).Agents().Create(ctx, row)
	if fault.CodeOf(err) == api.CodeConflict {
		agent, err = a.In(ctx).Agents().Get(ctx, row.ID) // made by an earlier run of this request
	}
	if err != nil {
		return nil, err
	}
	return &rest.Created[api.Agent]{Status: http.StatusCreated, Location: agentsPath + "/" + agent.ID, Body: agentOut(ctx)(agent)}, nil
}

func (a *handlers) listAgents(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.Agent]], error) {
	p, err := in.StorePage("agents")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Agents().List(ctx, p)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("agents", rows, next, agentOut(ctx)), nil
}

func (a *handlers) getAgent(ctx context.Context, in *ByID) (*rest.Reply[api.Agent], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	agent, err := a.In(ctx).Agents().Get(ctx, id)
	if err = cmp.Or(err, agent.Problem); err != nil {
		return nil, err
	}
	return &rest.Reply[api.Agent]{Body: agentOut(ctx)(agent)}, nil
}

type putAgent struct {
	ByID
	Body api.PutAgent
}

func (a *handlers) putAgent(ctx context.Context, in *putAgent) (*rest.Reply[api.Agent], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	row, err := a.agentRow(ctx, id, in.Body)
	if err != nil {
		return nil, err
	}
	agent, err := a.In(ctx).Agents().Update(ctx, row)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Agent]{Body: agentOut(ctx)(agent)}, nil
}

func (a *handlers) deleteAgent(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.In(ctx).Agents().Delete(ctx, id)
}

// agentOut returns a function that converts agents for the caller. Values of variables may be secrets: only keys with
// the scope admin see them.
func agentOut(ctx context.Context) func(store.Agent) api.Agent {
	who, _ := auth.PrincipalFrom(ctx)
	return func(a store.Agent) api.Agent {
		if who.Scope != api.ScopeAdmin {
			a.Overrides = withoutValues(a.Overrides)
		}
		return api.Agent{ID: a.ID, Name: a.Name, Template: a.Template, Overrides: a.Overrides, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
	}
}

// withoutValues masks the values of the variables in an agent's overrides.
func withoutValues(overrides json.RawMessage) json.RawMessage {
	var fields map[string]any
	if json.Unmarshal(overrides, &fields) != nil || fields["env"] == nil {
		return overrides
	}
	env, _ := fields["env"].(map[string]any)
	for name := range env {
		env[name] = "***"
	}
	if env == nil {
		fields["env"] = "***" // env is not an object
	}
	masked, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return masked
}
