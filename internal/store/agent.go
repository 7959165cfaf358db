package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Agent is a tenant's record of a template with changes of its own.
type Agent struct {
	ID        string // empty on create: a new one is made
	Name      string // unique in the tenant, empty for none
	Template  string
	Overrides json.RawMessage // a JSON object; nil for none
	CreatedAt time.Time
	UpdatedAt time.Time
}

var agents = recordKind{table: "agents", noun: "agent", unknown: api.CodeUnknownAgent}

const agentColumns = "id, name, template, overrides, created_at, updated_at"

func scanAgent(row scanner) (a Agent, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Template, document{&a.Overrides}, instant{&a.CreatedAt}, instant{&a.UpdatedAt})
	return a, err
}

// overrides is the argument: text that reads back as a JSON object.
func (a Agent) overrides() (string, error) {
	if len(a.Overrides) == 0 {
		return "{}", nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.Overrides, &object); err != nil || object == nil {
		return "", sandbox.Errorf("check agent", api.CodeInvalidRequest, "the overrides are not a JSON object")
	}
	return string(a.Overrides), nil
}

// CreateAgent makes an agent. A taken name or id is refused.
func (s Scope) CreateAgent(ctx context.Context, a Agent) (Agent, error) {
	if a.ID == "" {
		a.ID = NewID()
	}
	overrides, err := a.overrides()
	if err != nil {
		return Agent{}, err
	}
	made, err := first(ctx, s.db.write, scanAgent, `
		insert into agents (id, tenant, name, template, overrides, created_at, updated_at)
		values ($1, $2, $3, $4, $5, {now}, {now})
		on conflict do nothing returning `+agentColumns, a.ID, s.tenant, a.Name, a.Template, overrides)
	if errors.Is(err, sql.ErrNoRows) {
		return Agent{}, agents.refuse(ctx, s, a.ID, a.Name)
	}
	return made, s.db.fail("create agent", err)
}

// Agent returns the agent, an error of code unknown_agent, or ErrDeleted.
func (s Scope) Agent(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, s.db.read, scanAgent,
		`select `+agentColumns+` from agents where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.miss(ctx, s, op, id)
	}
	return a, s.db.fail(op, err)
}

// AgentRecord returns the agent, a deleted one too: conversations that were made with it go on.
func (s Scope) AgentRecord(ctx context.Context, id string) (Agent, error) {
	const op = "read agent"
	a, err := first(ctx, s.db.read, scanAgent, `select `+agentColumns+` from agents where tenant = $1 and id = $2`, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, agents.missing(op, id)
	}
	return a, s.db.fail(op, err)
}

// Agents returns one page of the tenant's agents, newest first, and where the next one begins.
func (s Scope) Agents(ctx context.Context, page Page) ([]Agent, Position, error) {
	l := listing[Agent]{
		columns: agentColumns, table: "agents", scan: scanAgent,
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
	overrides, err := a.overrides()
	if err != nil {
		return Agent{}, err
	}
	now, err := first(ctx, s.db.write, scanAgent, `
		update agents set name = $3, template = $4, overrides = $5, updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null
		returning `+agentColumns, s.tenant, a.ID, a.Name, a.Template, overrides)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Agent{}, agents.miss(ctx, s, op, a.ID)
	case err != nil && s.db.dialect.duplicate(err):
		return Agent{}, sandbox.Errorf(op, api.CodeNameTaken, "another agent has the name %q", a.Name)
	}
	return now, s.db.fail(op, err)
}

// DeleteAgent deletes the agent for good. Deleting it again is ErrDeleted.
func (s Scope) DeleteAgent(ctx context.Context, id string) error {
	const op = "delete agent"
	n, err := s.db.write.exec(ctx, `update agents set deleted_at = {now} where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
	if err == nil && n == 0 {
		return agents.miss(ctx, s, op, id)
	}
	return s.db.fail(op, err)
}
