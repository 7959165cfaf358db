package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/berthdev/berth/api"
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
	if !isObject(want.Overrides) {
		return store.Agent{}, invalidField("body.overrides", "expected object")
	}
	return store.Agent{ID: id, Name: want.Name, Template: want.Template, Overrides: want.Overrides}, nil
}

// isObject reports whether the JSON is an object, or was left out.
func isObject(text json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return len(text) == 0 || json.Unmarshal(text, &fields) == nil && fields != nil
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
	return &made[api.Agent]{http.StatusCreated, agentsPath + "/" + agent.ID, agentOut(agent)}, nil
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
	return listOf("agents", rows, next, agentOut), nil
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
	return &reply[api.Agent]{agentOut(agent)}, nil
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
	return &reply[api.Agent]{agentOut(agent)}, nil
}

func (a *Handler) deleteAgent(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.in(ctx).DeleteAgent(ctx, id)
}

func agentOut(a store.Agent) api.Agent {
	return api.Agent{ID: a.ID, Name: a.Name, Template: a.Template, Overrides: a.Overrides, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
}
