package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const agentsPath = "/api/v1/agents"

func (a *Handler) addAgents() {
	const tag = "Agents"
	one := []api.Code{api.CodeInvalidID, api.CodeUnknownAgent, api.CodeDeleted}
	serve(a, operation{
		route: route{Method: http.MethodPost, Path: agentsPath, Name: "create-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Make an agent: a template with changes of your own", Status: http.StatusCreated, Problems: []api.Code{api.CodeNameTaken, api.CodeUnknownTemplate},
	}, a.createAgent)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: agentsPath, Name: "list-agents", Scope: api.ScopeRead},
		Tag:   tag, Summary: "List agents, newest first", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listAgents)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: agentsPath + "/{id}", Name: "get-agent", Scope: api.ScopeRead},
		Tag:   tag, Summary: "Read an agent", Problems: one,
	}, a.getAgent)
	serve(a, operation{
		route: route{Method: http.MethodPut, Path: agentsPath + "/{id}", Name: "put-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Change an agent", Problems: append(one, api.CodeNameTaken, api.CodeUnknownTemplate),
	}, a.putAgent)
	serve(a, operation{
		route: route{Method: http.MethodDelete, Path: agentsPath + "/{id}", Name: "delete-agent", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Delete an agent", Problems: one,
	}, a.deleteAgent)
}

func (a *Handler) agentRow(id string, want api.PutAgent) (store.Agent, error) {
	if err := checkPlain("body.name", want.Name); err != nil {
		return store.Agent{}, err
	}
	if err := a.Engine.CheckTemplate(want.Template); err != nil {
		return store.Agent{}, err
	}
	if _, err := conversation.ParseOverrides(want.Overrides); err != nil {
		return store.Agent{}, invalidField("body.overrides", err.Error())
	}
	return store.Agent{ID: id, Name: want.Name, Template: want.Template, Overrides: want.Overrides}, nil
}

func (a *Handler) createAgent(ctx context.Context, in *struct{ Body api.PutAgent }) (*made[api.Agent], error) {
	row, err := a.agentRow(effectID(ctx), in.Body)
	if err != nil {
		return nil, err
	}
	agent, err := a.in(ctx).CreateAgent(ctx, row)
	if sandbox.CodeOf(err) == api.CodeConflict {
		agent, err = a.in(ctx).Agent(ctx, row.ID) // made by an earlier run of this request
	}
	if err != nil {
		return nil, err
	}
	return &made[api.Agent]{http.StatusCreated, agentsPath + "/" + agent.ID, agentOut(ctx)(agent)}, nil
}

func (a *Handler) listAgents(ctx context.Context, in *struct{ Paging }) (*reply[api.List[api.Agent]], error) {
	p, err := in.storePage("agents")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Agents(ctx, p)
	if err != nil {
		return nil, err
	}
	return listOf("agents", rows, next, agentOut(ctx)), nil
}

func (a *Handler) getAgent(ctx context.Context, in *ByID) (*reply[api.Agent], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	agent, err := a.in(ctx).Agent(ctx, id)
	if err != nil {
		return nil, err
	}
	return &reply[api.Agent]{agentOut(ctx)(agent)}, nil
}

type putAgent struct {
	ByID
	Body api.PutAgent
}

func (a *Handler) putAgent(ctx context.Context, in *putAgent) (*reply[api.Agent], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	row, err := a.agentRow(id, in.Body)
	if err != nil {
		return nil, err
	}
	agent, err := a.in(ctx).UpdateAgent(ctx, row)
	if err != nil {
		return nil, err
	}
	return &reply[api.Agent]{agentOut(ctx)(agent)}, nil
}

func (a *Handler) deleteAgent(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.in(ctx).DeleteAgent(ctx, id)
}

// agentOut converts agents for the caller. Variables may be secrets: only an administrator, who sets them, sees
// their values.
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
		fields["env"] = "***" // whatever it is
	}
	masked, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return masked
}
