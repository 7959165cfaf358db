package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"hash/fnv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// SandboxRequest is a request for an owner's sandbox.
type SandboxRequest struct {
	Kind  sandbox.OwnerKind
	Owner string // the owner's id

	ID    string // the required id; empty: any
	NewID string // the id of a new sandbox if ID is empty; empty: a random one
	Name  string // the sandbox's name; empty: none
	Spec  sandbox.Spec
	// Account and Agent are set on a new sandbox; empty: none.
	Account, Agent string
	// Prefix returns the prefix of a new sandbox's versions; nil: none yet.
	Prefix func(sandbox.Sandbox) string
	Host   string // the host to pin the sandbox to; empty: none
	Cap    int64  // the tenant's quota of sandboxes; 0: unlimited

	Want   sandbox.Want
	Reason string
	Actor  string

	// Accept checks an existing sandbox before anything is changed. Its error refuses the request. Nil accepts all.
	Accept func(sandbox.Sandbox) error
}

// RequestSandbox gets or creates the owner's one sandbox and sets its Want. Of concurrent callers for one owner,
// exactly one creates the row and gets created = true. A deleted sandbox is never revived: its id is refused with
// ErrDeleted, and its owner gets a new sandbox once the old one is terminated. Until then RequestSandbox returns the
// old one with ErrDeleting.
//
// The unique index decides which caller creates the row. Each step is one statement. If a row disappears between two
// steps, RequestSandbox starts again.
func (s Scope) RequestSandbox(ctx context.Context, in SandboxRequest) (sb sandbox.Sandbox, created bool, err error) {
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
		case errors.Is(err, fault.ErrDeleting):
			return sb, false, err
		case errors.Is(err, errForeignID):
			in.ID, in.NewID = s.scopedID(in.ID), s.scopedID(in.NewID)
			continue
		case !errors.Is(err, sql.ErrNoRows):
			return sandbox.Sandbox{}, false, s.db.fail("record sandbox", err)
		}
	}
}

// insert creates the sandbox. It returns sql.ErrNoRows when the owner has a sandbox, or when the id or name is taken.
// Concurrent callers for one owner wait at the owner's gate, which saves work; correctness does not depend on it.
func (s Scope) insert(ctx context.Context, in SandboxRequest) (sandbox.Sandbox, error) {
	id := cmp.Or(in.ID, in.NewID, NewID())
	prefix := ""
	if in.Prefix != nil {
		prefix = in.Prefix(sandbox.Sandbox{
			ID: id, Name: in.Name, Owner: sandbox.Owner{Tenant: string(s.tenant), Kind: in.Kind, ID: in.Owner},
			Spec: in.Spec, Account: in.Account, Agent: in.Agent,
		})
	}
	env, sealed, err := s.db.secrets.seal(sandboxEnv(string(s.tenant), id), asJSON(in.Spec.Env))
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	return s.db.dialect.apply(ctx, s.db, change{
		text: `
			insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, account, agent, prefix, host,
				state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes,
				created_at, active_at, due_at, sealed)
			select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, 0, '', '', 0, 1, {now}, {now}, {now}, $18
			from {gate $17} where true
			on conflict do nothing`,
		args: []any{
			id, s.tenant, in.Kind, in.Owner, in.Name, in.Spec.Template, in.Spec.Driver, in.Spec.Profile,
			env, asJSON(in.Spec.Metadata), in.Account, in.Agent, prefix, in.Host, sandbox.Pending, in.Want, s.lockKey(in), sealed,
		},
		reason: in.Reason, actor: in.Actor,
		count: countOne(in.Cap),
	})
}

// lockKey returns the owner's number for the gate. Two owners with the same number only wait for each other.
func (s Scope) lockKey(in SandboxRequest) int64 {
	h := fnv.New64a()
	for _, part := range []string{string(s.tenant), string(in.Kind), in.Owner} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return int64(h.Sum64())
}

// reuse sets Want of the existing sandbox that blocked the insert.
func (s Scope) reuse(ctx context.Context, in SandboxRequest) (sandbox.Sandbox, error) {
	sb, err := s.blockingSandbox(ctx, in)
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

// blockingSandbox returns the owner's sandbox, or an error with the cause that blocked the insert. It returns
// sql.ErrNoRows if the cause has disappeared.
func (s Scope) blockingSandbox(ctx context.Context, in SandboxRequest) (sandbox.Sandbox, error) {
	if id := cmp.Or(in.ID, in.NewID); id != "" {
		if err := s.checkID(ctx, id, in); err != nil {
			return sandbox.Sandbox{}, err
		}
	}
	sb, err := s.ByOwnerOrDeleting(ctx, in.Kind, in.Owner)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return s.checkName(ctx, in.Name)
	case err == nil && sb.Deleted():
		return sb, deleting("record sandbox", sb)
	case err == nil && in.ID != "" && sb.ID != in.ID:
		return sb, fault.Errorf("record sandbox", api.CodeNameTaken, "%s has the sandbox %s already", sb.Owner, sb.ID)
	}
	return sb, err
}

// checkName returns the sandbox with the name and an error, or sql.ErrNoRows if no sandbox has the name.
func (s Scope) checkName(ctx context.Context, name string) (sandbox.Sandbox, error) {
	const op = "record sandbox"
	sb, err := s.ByNameOrDeleting(ctx, name)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return sb, sql.ErrNoRows
	case err != nil:
		return sb, err
	case sb.Deleted():
		return sb, deleting(op, sb)
	}
	return sb, fault.Errorf(op, api.CodeNameTaken, "the sandbox %s has the name %q already", sb.ID, name)
}

// errForeignID reports that another tenant has the id, so that this tenant's row gets its scoped form.
var errForeignID = errors.New("the id belongs to another tenant")

// checkID returns an error if the id belongs to another owner: ids are never reused.
func (s Scope) checkID(ctx context.Context, id string, in SandboxRequest) error {
	const op = "record sandbox"
	sb, err := s.db.Sandbox(ctx, id)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return nil
	case err != nil:
		return err
	case sb.Owner.Tenant != string(s.tenant):
		return errForeignID
	case sb.Deleted():
		return deleted(op, "sandbox", id)
	case sb.Owner.Kind != in.Kind || sb.Owner.ID != in.Owner:
		return fault.Errorf(op, api.CodeConflict, "the sandbox %s belongs to another owner", id)
	}
	return nil
}
