// Package project implements projects. A project has exactly one sandbox, which belongs to it until the project is
// deleted.
//
// A project has no record except that of its sandbox: the first [Projects.Ensure] makes both, and [Projects.Delete]
// deletes both. This package finds the sandbox by its owner and calls the engine, which does the work.
package project

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Engine holds the engine's methods that this package uses.
type Engine interface {
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	Inspect(ctx context.Context, s sandbox.Sandbox) (engine.Inspection, error)
	Handle(tenant, id, actor string) *engine.Handle
	HandleFor(r engine.Request) *engine.Handle
}

// Service gives access to the projects of every tenant.
type Service struct {
	engine Engine
	db     *store.DB
}

// New returns a Service for an engine and its database.
func New(e Engine, db *store.DB) *Service { return &Service{e, db} }

// Of returns the projects that a caller may see. New projects belong to the account; empty: to no account.
func (s *Service) Of(scope store.Scope, actor, account string) Projects {
	return Projects{s, scope, string(scope.Tenant()), actor, account}
}

// Projects gives access to the projects of one tenant. Projects of two tenants with the same id are different projects.
type Projects struct {
	*Service
	in            store.Scope
	tenant, actor string
	account       string
}

// Get returns the project's sandbox, or ErrNotFound if it was never ensured.
func (p Projects) Get(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return p.find(ctx, id, store.Scope.ByOwner)
}

// Occupant returns the project's sandbox, also while it is being deleted, or ErrNotFound.
func (p Projects) Occupant(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return p.find(ctx, id, store.Scope.ByOwnerOrDeleting)
}

func (p Projects) find(ctx context.Context, id string, look func(store.Scope, context.Context, sandbox.OwnerKind, string) (sandbox.Sandbox, error)) (sandbox.Sandbox, error) {
	o, err := p.owner(id)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	s, err := look(p.scope(), ctx, o.Kind, o.ID)
	if errors.Is(err, fault.ErrNotFound) {
		e := fault.Errorf("find project", api.CodeNotFound, "there is no project %q", id)
		e.Hint = "Its first ensure makes it, with its sandbox: POST /api/v1/projects/{project_id}/sandbox."
		return s, e
	}
	return s, err
}

// Ensure returns the project's sandbox, running. If there is none, it makes one with the id newID and created is true.
// The fields that are set in spec must agree with an existing sandbox.
func (p Projects) Ensure(ctx context.Context, id string, spec sandbox.Spec, newID string) (s sandbox.Sandbox, created bool, err error) {
	r, err := p.request(id, newID)
	if err != nil {
		return s, false, err
	}
	r.Spec = spec
	return p.engine.Ensure(ctx, r)
}

// Handle returns a handle of the project's sandbox. Its first use calls Ensure with the timeout within.
func (p Projects) Handle(id, newID string, within time.Duration) (*engine.Handle, error) {
	r, err := p.request(id, newID)
	if err != nil {
		return nil, err
	}
	r.Wait = within
	return p.engine.HandleFor(r), nil
}

// request returns the engine's request for the project's sandbox. If the caller is limited to an account, the request
// finds only sandboxes of this account.
func (p Projects) request(id, newID string) (engine.Request, error) {
	o, err := p.owner(id)
	return engine.Request{Owner: o, NewID: newID, Actor: p.actor, Account: p.account, Within: p.in.OnlyAccount()}, err
}

// Restart stops the project's sandbox and starts it again.
func (p Projects) Restart(ctx context.Context, id string) (sandbox.Sandbox, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return s, err
	}
	return p.handle(s).Restart(ctx)
}

// Terminate saves the sandbox unless skipSave is set, and then ends its instance and removes its local files. The project
// keeps its sandbox: the next use makes a new instance.
func (p Projects) Terminate(ctx context.Context, id string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return s, err
	}
	return p.handle(s).Terminate(ctx, skipSave)
}

// Delete deletes the project and its sandbox for good. It returns when the sandbox is deleted, or when ctx ends. In the
// second case the engine continues, and the returned sandbox has the state that was reached. If a delete is in progress
// already, Delete waits for it.
func (p Projects) Delete(ctx context.Context, id string, skipSave bool) (sandbox.Sandbox, error) {
	s, err := p.Occupant(ctx, id)
	if err != nil {
		return s, err
	}
	return p.engine.Delete(ctx, p.tenant, s.ID, p.actor, skipSave)
}

// Inspect compares the record of the project's sandbox with its instance. It changes neither.
func (p Projects) Inspect(ctx context.Context, id string) (engine.Inspection, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return engine.Inspection{}, err
	}
	return p.engine.Inspect(ctx, s)
}

// Reconcile compares the record with the instance, repairs the difference, and returns the result.
func (p Projects) Reconcile(ctx context.Context, id string) (engine.Inspection, error) {
	s, err := p.Get(ctx, id)
	if err != nil {
		return engine.Inspection{}, err
	}
	if _, err := p.handle(s).Reconcile(ctx); err != nil {
		return engine.Inspection{}, err
	}
	return p.Inspect(ctx, id)
}

// reserved cannot be the id of a project: its path in the API is the list of all projects.
const reserved = "sandboxes"

// CheckID returns an error for an id of a project that cannot be used in a path. Clients choose ids, which may contain
// slashes. A part between slashes must not be empty or consist of dots, because clients would resolve such a path.
func CheckID(id string) error {
	o := sandbox.Owner{Tenant: "any", Kind: sandbox.OwnerProject, ID: id}
	if err := o.Validate(); err != nil {
		return err
	}
	if id == reserved {
		return fault.Errorf("check project", api.CodeInvalidID, "no project can be called %q: the list of all of them is there", id)
	}
	for part := range strings.SplitSeq(id, "/") {
		if strings.Trim(part, ".") == "" {
			return fault.Errorf("check project", api.CodeInvalidID, "the parts of a project's id between slashes may not be empty or dots")
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
