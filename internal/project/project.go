// Package project is the front of projects: each has exactly one sandbox, which stays running for the
// project's life.
//
// A project is its sandbox's record: the first [Projects.Ensure] makes both, [Projects.Delete] ends both.
// Everything else is the engine's: this package finds the sandbox by its owner and says what projects call
// things.
package project

import (
	"context"
	"errors"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Engine is what projects need of the engine.
type Engine interface {
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	Look(ctx context.Context, s sandbox.Sandbox) (engine.Look, error)
	Handle(tenant, id, actor string) *engine.Handle
}

// Service is the projects of every tenant.
type Service struct {
	engine Engine
	db     *store.DB
}

// New returns the projects on an engine and its database.
func New(e Engine, db *store.DB) *Service { return &Service{e, db} }

// Of returns the projects that a caller may see. New ones are made for the account, empty for none.
func (s *Service) Of(scope store.Scope, actor, account string) Projects {
	return Projects{s, scope, string(scope.Tenant()), actor, account}
}

// Projects are those of one tenant. What another tenant has under the same id is another project.
type Projects struct {
	*Service
	in            store.Scope
	tenant, actor string
	account       string
}

// Get returns the project's sandbox, or ErrNotFound if nobody has ensured it yet.
func (p Projects) Get(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return p.find(ctx, id, store.Scope.ByOwner)
}

// Occupant returns the project's sandbox, also one that is being deleted, or ErrNotFound.
func (p Projects) Occupant(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return p.find(ctx, id, store.Scope.Occupant)
}

func (p Projects) find(ctx context.Context, id string, look func(store.Scope, context.Context, sandbox.OwnerKind, string) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	o, err := p.owner(id)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	s, err := look(p.scope(), ctx, o.Kind, o.ID)
	if errors.Is(err, sandbox.ErrNotFound) {
		e := sandbox.Errorf("find project", api.CodeNotFound, "there is no project %q", id)
		e.Hint = "Its first ensure makes it, with its sandbox: POST /api/v1/projects/{project_id}/sandbox."
		return s, e
	}
	return s, err
}

// Ensure returns the project's sandbox, running, and whether this call made it: under newID then. The
// fields given in spec must agree with a sandbox that is there already.
func (p Projects) Ensure(ctx context.Context, id string, spec sandbox.Spec, newID string) (s sandbox.Sandbox, created bool, err error) {
	o, err := p.owner(id)
	if err != nil {
		return s, false, err
	}
	return p.engine.Ensure(ctx, engine.Request{Owner: o, NewID: newID, Spec: spec, Actor: p.actor, Account: p.account, Within: p.in.OnlyAccount()})
}

// Restart stops the project's sandbox and starts it again.
func (p Projects) Restart(ctx context.Context, id string) (sandbox.Sandbox, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return s, err
	}
	return p.handle(s).Restart(ctx)
}

// Terminate ends the sandbox's instance and its files, after a last save unless that is skipped. The
// project keeps its sandbox: the next use makes a new instance.
func (p Projects) Terminate(ctx context.Context, id string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return s, err
	}
	return p.handle(s).Terminate(ctx, skipSave)
}

// Delete ends the project with its sandbox, for good. It returns once nothing of it is left, or with the
// context; the state of what it returns says how far it came, and the engine goes on by itself. A delete
// that is under way is joined.
func (p Projects) Delete(ctx context.Context, id string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := p.Occupant(ctx, id)
	if err != nil {
		return s, err
	}
	return p.engine.Delete(ctx, p.tenant, s.ID, p.actor, skipSave)
}

// Look compares the record of the project's sandbox with what is really there, and changes neither.
func (p Projects) Look(ctx context.Context, id string) (engine.Look, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return engine.Look{}, err
	}
	return p.engine.Look(ctx, s)
}

// Reconcile does what is to be done about what is really there, and returns what there is then.
func (p Projects) Reconcile(ctx context.Context, id string) (engine.Look, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return engine.Look{}, err
	}
	if _, err := p.handle(s).Reconcile(ctx); err != nil {
		return engine.Look{}, err
	}
	return p.Look(ctx, id)
}

// reserved is no project: the list of all of them is there.
const reserved = "sandboxes"

// CheckID says what is wrong with the id of a project, or nil. Ids are their makers' own, with slashes if
// they like, but stand in paths: nothing of one may mean another place.
func CheckID(id string) error {
	o := sandbox.Owner{Tenant: "any", Kind: sandbox.OwnerProject, ID: id}
	if err := o.Validate(); err != nil {
		return err
	}
	if id == reserved {
		return sandbox.Errorf("check project", api.CodeInvalidID, "no project can be called %q: the list of all of them is there", id)
	}
	for part := range strings.SplitSeq(id, "/") {
		if strings.Trim(part, ".") == "" {
			return sandbox.Errorf("check project", api.CodeInvalidID, "the parts of a project's id between slashes may not be empty or dots")
		}
	}
	return nil
}

func (p Projects) owner(id string) (sandbox.Owner, error) {
	return sandbox.Owner{Tenant: p.tenant, Kind: sandbox.OwnerProject, ID: id}, CheckID(id)
}

func (p Projects) scope() store.Scope { return p.in }

func (p Projects) handle(s sandbox.Sandbox) *engine.Handle {
	return p.engine.Handle(p.tenant, s.ID, p.actor)
}
