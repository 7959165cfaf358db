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

// overrides returns the columns overrides and sealed. It refuses overrides that are not a JSON object.
func (s Scope) overrides(a Agent) (stored, sealed string, err error) {
	if len(a.Overrides) == 0 {
		return nothing, "", nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.Overrides, &object); err != nil || object == nil {
		return "", "", fault.Errorf("check agent", api.CodeInvalidRequest, "the overrides are not a JSON object")
	}
	return s.db.secrets.seal(agentOverrides(s.tenant, a.ID), string(a.Overrides))
}

// CreateAgent creates an agent. It returns an error if the name or the id is taken.
func (s Scope) CreateAgent(ctx context.Context, a Agent) (Agent, error) {
	if a.ID == "" {
		a.ID = NewID()
	}
	overrides, sealed, err := s.overrides(a)
	if err != nil {
		return Agent{}, err
	}
	made, err := first(ctx, s.db.write, s.db.scanAgent, `
		insert into agents (id, tenant, name, template, overrides, created_at, updated_at, sealed)
		values ($1, $2, $3, $4, $5, {now}, {now}, $6)
		on conflict do nothing returning `+agentColumns, a.ID, s.tenant, a.Name, a.Template, overrides, sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return Agent{}, agents.refuse(ctx, s, a.ID, a.Name)
	}
	return made, s.db.fail("create agent", err)
}

// Agent returns the agent, an error of code unknown_agent, or ErrDeleted.
func (s Scope) Agent(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, s.db.read, s.db.scanAgent,
		`select `+agentColumns+` from agents where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.explainMissing(ctx, s, op, id)
	}
	return a, s.db.fail(op, err)
}

// AgentOrDeleted returns the agent even if it is deleted, because its conversations continue.
func (s Scope) AgentOrDeleted(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, s.db.read, s.db.scanAgent, `select `+agentColumns+` from agents where tenant = $1 and id = $2`, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.missing(op, id)
	}
	return a, s.db.fail(op, err)
}

// Agents returns one page of the tenant's agents, newest first, and the position of the next page.
func (s Scope) Agents(ctx context.Context, page Page) ([]Agent, Position, error) {
	l := listing[Agent]{
		columns: agentColumns, table: "agents", scan: s.db.scanAgent,
		position:   func(a Agent) Position { return Position{a.CreatedAt, a.ID} },
		conditions: []string{"deleted_at is null"},
	}
	l.where("tenant = $%d", s.tenant)
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list agents", err)
}

// UpdateAgent replaces the agent's name, template and overrides.
func (s Scope) UpdateAgent(ctx context.Context, a Agent) (Agent, error) {
	const op = "update agent"
	overrides, sealed, err := s.overrides(a)
	if err != nil {
		return Agent{}, err
	}
	now, err := first(ctx, s.db.write, s.db.scanAgent, `
		update agents set name = $3, template = $4, overrides = $5, sealed = $6, updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null
		returning `+agentColumns, s.tenant, a.ID, a.Name, a.Template, overrides, sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Agent{}, agents.explainMissing(ctx, s, op, a.ID)
	case err != nil && s.db.dialect.duplicate(err):
		return Agent{}, fault.Errorf(op, api.CodeNameTaken, "another agent has the name %q", a.Name)
	}
	return now, s.db.fail(op, err)
}

// DeleteAgent deletes the agent for good. A second call returns ErrDeleted.
func (s Scope) DeleteAgent(ctx context.Context, id string) error {
	const op = "delete agent"
	n, err := s.db.write.exec(ctx, `update agents set deleted_at = {now} where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
	if err == nil && n == 0 {
		return agents.explainMissing(ctx, s, op, id)
	}
	return s.db.fail(op, err)
}
