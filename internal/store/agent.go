package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Agent is a tenant's record of a template with overrides.
type Agent struct {
	ID        string // empty on create: a new id is generated
	Name      string // unique in the tenant; empty: none
	Template  string
	Overrides json.RawMessage // a JSON object; nil: none
	Problem   error           // the error if Overrides could not be read
	CreatedAt time.Time
	UpdatedAt time.Time
}

var agents = recordKind{table: "agents", noun: "agent", unknown: api.CodeUnknownAgent}

const agentColumns = "id, tenant, name, template, overrides, created_at, updated_at"

func (db *DB) scanAgent(row scanner) (a Agent, err error) {
	var tenant TenantID
	var overrides string
	err = row.Scan(&a.ID, &tenant, &a.Name, &a.Template, &overrides, instant{&a.CreatedAt}, instant{&a.UpdatedAt})
	if err == nil {
		a.Problem = db.Secrets().openJSON(agentOverrides(tenant, a.ID), overrides, &a.Overrides)
	}
	return a, err
}

// Agents holds the agents of a tenant.
type Agents struct{ scope Scope }

// Agents returns the tenant's agents.
func (s Scope) Agents() Agents { return Agents{s} }

// overrides returns the columns overrides and sealed. It refuses overrides that are not a JSON object.
func (ag Agents) overrides(a Agent) (stored, sealed string, err error) {
	if len(a.Overrides) == 0 {
		return nothing, "", nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.Overrides, &object); err != nil || object == nil {
		return "", "", fault.Errorf("check agent", api.CodeInvalidRequest, "the overrides are not a JSON object")
	}
	return ag.scope.db.secrets.seal(agentOverrides(ag.scope.tenant, a.ID), string(a.Overrides))
}

// Create creates an agent. It returns an error if the name or the id is taken.
func (ag Agents) Create(ctx context.Context, a Agent) (Agent, error) {
	if a.ID == "" {
		a.ID = NewID()
	}
	overrides, sealed, err := ag.overrides(a)
	if err != nil {
		return Agent{}, err
	}
	made, err := first(ctx, ag.scope.db.write, ag.scope.db.scanAgent, `
		insert into agents (id, tenant, name, template, overrides, created_at, updated_at, sealed)
		values ($1, $2, $3, $4, $5, {now}, {now}, $6)
		on conflict do nothing returning `+agentColumns, a.ID, ag.scope.tenant, a.Name, a.Template, overrides, sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return Agent{}, agents.refuse(ctx, ag.scope, a.ID, a.Name)
	}
	return made, ag.scope.db.fail("create agent", err)
}

// Get returns the agent, an error of code unknown_agent, or ErrDeleted.
func (ag Agents) Get(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, ag.scope.db.read, ag.scope.db.scanAgent,
		`select `+agentColumns+` from agents where tenant = $1 and id = $2 and deleted_at is null`, ag.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.explainMissing(ctx, ag.scope, op, id)
	}
	return a, ag.scope.db.fail(op, err)
}

// GetOrDeleted returns the agent even if it is deleted, because its conversations continue.
func (ag Agents) GetOrDeleted(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, ag.scope.db.read, ag.scope.db.scanAgent, `select `+agentColumns+` from agents where tenant = $1 and id = $2`, ag.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.missing(op, id)
	}
	return a, ag.scope.db.fail(op, err)
}

// List returns one page of the tenant's agents, newest first, and the position of the next page.
func (ag Agents) List(ctx context.Context, page Page) ([]Agent, Position, error) {
	l := listing[Agent]{
		columns: agentColumns, table: "agents", scan: ag.scope.db.scanAgent,
		position:   func(a Agent) Position { return Position{a.CreatedAt, a.ID} },
		conditions: []string{"deleted_at is null"},
	}
	l.where("tenant = $%d", ag.scope.tenant)
	items, next, err := l.read(ctx, ag.scope.db.read, page)
	return items, next, ag.scope.db.fail("list agents", err)
}

// Update replaces the agent's name, template and overrides.
func (ag Agents) Update(ctx context.Context, a Agent) (Agent, error) {
	const op = "update agent"
	overrides, sealed, err := ag.overrides(a)
	if err != nil {
		return Agent{}, err
	}
	now, err := first(ctx, ag.scope.db.write, ag.scope.db.scanAgent, `
		update agents set name = $3, template = $4, overrides = $5, sealed = $6, updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null
		returning `+agentColumns, ag.scope.tenant, a.ID, a.Name, a.Template, overrides, sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Agent{}, agents.explainMissing(ctx, ag.scope, op, a.ID)
	case err != nil && ag.scope.db.dialect.duplicate(err):
		return Agent{}, fault.Errorf(op, api.CodeNameTaken, "another agent has the name %q", a.Name)
	}
	return now, ag.scope.db.fail(op, err)
}

// Delete deletes the agent for good. A second call returns ErrDeleted.
func (ag Agents) Delete(ctx context.Context, id string) error {
	const op = "delete agent"
	n, err := ag.scope.db.write.exec(ctx, `update agents set deleted_at = {now} where tenant = $1 and id = $2 and deleted_at is null`, ag.scope.tenant, id)
	if err == nil && n == 0 {
		return agents.explainMissing(ctx, ag.scope, op, id)
	}
	return ag.scope.db.fail(op, err)
}
