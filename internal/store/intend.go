package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"hash/fnv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Intent asks for an owner's sandbox.
type Intent struct {
	Kind  sandbox.OwnerKind
	Owner string // the owner's id

	ID    string // the id it must have; empty: any
	NewID string // the id to make it under where ID is empty; empty: a new one
	Name  string // empty for none
	Spec  sandbox.Spec
	// Account and Agent are whom a new sandbox is made for; empty for none.
	Account, Agent string
	// Prefix returns where the versions of a new sandbox will be; nil: nowhere yet.
	Prefix func(sandbox.Sandbox) string
	Host   string // machine to pin it to; empty for none
	Cap    int64  // how many sandboxes the tenant may have; 0: any number

	Want   sandbox.Want
	Reason string
	Actor  string

	// Accept looks at a sandbox that exists already, before anything is changed; its error
	// refuses the intent. Nil accepts.
	Accept func(sandbox.Sandbox) error
}

// Intend gets or makes the owner's one sandbox and sets what is wanted of it. However many race for
// one owner, one row is made, and created is true for one of them. A tombstone is never revived: its
// id is refused with ErrDeleted, and its owner gets a new sandbox once nothing of the old one is left. Until
// then Intend returns the old one with ErrDeleting.
//
// The unique index decides who makes the row. Each step is one statement, and what the first of them
// met may be gone before the next looks: then Intend begins again.
func (s Scope) Intend(ctx context.Context, in Intent) (sb sandbox.Sandbox, created bool, err error) {
	owner := sandbox.Owner{Tenant: string(s.tenant), Kind: in.Kind, ID: in.Owner}
	if err := owner.Validate(); err != nil {
		return sandbox.Sandbox{}, false, err
	}
	for {
		sb, err = s.insert(ctx, in)
		if created = err == nil; errors.Is(err, sql.ErrNoRows) {
			sb, err = s.reuse(ctx, in)
		}
		switch {
		case err == nil:
			return sb, created, nil
		case s.db.dialect.overQuota(err):
			return sandbox.Sandbox{}, false, overQuota("record sandbox", QuotaSandboxes, in.Cap)
		case errors.Is(err, sandbox.ErrDeleting):
			return sb, false, err
		case !errors.Is(err, sql.ErrNoRows):
			return sandbox.Sandbox{}, false, s.db.fail("record sandbox", err)
		}
	}
}

// insert returns sql.ErrNoRows when the owner has a sandbox, or when its id or name is taken. Racers
// for one owner queue at its gate; that saves them work, and nothing relies on it.
func (s Scope) insert(ctx context.Context, in Intent) (sandbox.Sandbox, error) {
	id := cmp.Or(in.ID, in.NewID, NewID())
	prefix := ""
	if in.Prefix != nil {
		prefix = in.Prefix(sandbox.Sandbox{
			ID: id, Name: in.Name, Owner: sandbox.Owner{Tenant: string(s.tenant), Kind: in.Kind, ID: in.Owner},
			Spec: in.Spec, Account: in.Account, Agent: in.Agent,
		})
	}
	return s.db.dialect.apply(ctx, s.db, change{
		text: `
			insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, account, agent, prefix, host,
				state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes,
				created_at, active_at, due_at)
			select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, 0, '', '', 0, 1, {now}, {now}, {now}
			from {gate $17} where true
			on conflict do nothing`,
		args: []any{
			id, s.tenant, in.Kind, in.Owner, in.Name, in.Spec.Template, in.Spec.Driver, in.Spec.Profile,
			asJSON(in.Spec.Env), asJSON(in.Spec.Metadata), in.Account, in.Agent, prefix, in.Host, sandbox.Pending, in.Want, s.gate(in),
		},
		reason: in.Reason, actor: in.Actor,
		count: taken(in.Cap),
	})
}

// gate is the owner's number for the lock that racers queue at. Two owners that share one merely wait
// for each other.
func (s Scope) gate(in Intent) int64 {
	h := fnv.New64a()
	for _, part := range []string{string(s.tenant), string(in.Kind), in.Owner} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}

// reuse sets what is wanted of the sandbox that stood in the way of the insert.
func (s Scope) reuse(ctx context.Context, in Intent) (sandbox.Sandbox, error) {
	sb, err := s.standing(ctx, in)
	if err != nil {
		return sb, err
	}
	if in.Accept != nil {
		if err := in.Accept(sb); err != nil {
			return sb, err
		}
	}
	return s.want(ctx, sb.ID, in.Want, false, in.Reason, in.Actor)
}

// standing finds the owner's sandbox, or says what else stood in the way of the insert. It returns
// sql.ErrNoRows when nothing does any more.
func (s Scope) standing(ctx context.Context, in Intent) (sandbox.Sandbox, error) {
	if id := cmp.Or(in.ID, in.NewID); id != "" {
		if err := s.checkID(ctx, id, in); err != nil {
			return sandbox.Sandbox{}, err
		}
	}
	sb, err := s.Occupant(ctx, in.Kind, in.Owner)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return s.checkName(ctx, in.Name)
	case err == nil && sb.Deleted():
		return sb, deleting("record sandbox", sb)
	case err == nil && in.ID != "" && sb.ID != in.ID:
		return sb, sandbox.Errorf("record sandbox", api.CodeNameTaken, "%s has the sandbox %s already", sb.Owner, sb.ID)
	}
	return sb, err
}

// checkName returns the sandbox that has the name and says so, or sql.ErrNoRows if none has it.
func (s Scope) checkName(ctx context.Context, name string) (sandbox.Sandbox, error) {
	const op = "record sandbox"
	sb, err := s.Named(ctx, name)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return sb, sql.ErrNoRows
	case err != nil:
		return sb, err
	case sb.Deleted():
		return sb, deleting(op, sb)
	}
	return sb, sandbox.Errorf(op, api.CodeNameTaken, "the sandbox %s has the name %q already", sb.ID, name)
}

// checkID refuses an id that is not this owner's: ids are unique over the whole server and never
// used twice. What another tenant holds looks like what does not exist.
func (s Scope) checkID(ctx context.Context, id string, in Intent) error {
	const op = "record sandbox"
	sb, err := s.db.Sandbox(ctx, id)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return nil
	case err != nil:
		return err
	case sb.Owner.Tenant != string(s.tenant):
		return notFound(op, "sandbox", id)
	case sb.Deleted():
		return deleted(op, "sandbox", id)
	case sb.Owner.Kind != in.Kind || sb.Owner.ID != in.Owner:
		return sandbox.Errorf(op, api.CodeConflict, "the sandbox %s belongs to another owner", id)
	}
	return nil
}
