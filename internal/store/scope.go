package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// TenantID names a tenant.
type TenantID string

// Scope is one tenant's part of the database. It reads and writes nothing of any other tenant; what
// another tenant holds is not found.
type Scope struct {
	db      *DB
	tenant  TenantID
	account string // the only account whose sandboxes and conversations it has; empty: those of all
}

// In returns the tenant's part of the database. It asks nothing of the database: a tenant that does
// not exist has nothing in its part.
func (db *DB) In(t TenantID) Scope { return Scope{db: db, tenant: t} }

// Within returns the part of the scope that belongs to one account: other accounts' sandboxes, conversations
// and usage are not found in it. An empty account does not narrow.
func (s Scope) Within(account string) Scope {
	s.account = account
	return s
}

// OnlyAccount is the account that the scope is narrowed to, empty for none.
func (s Scope) OnlyAccount() string { return s.account }

// Tenant is whose part this is.
func (s Scope) Tenant() TenantID { return s.tenant }

// ByID returns the sandbox, ErrNotFound, or ErrDeleted for a tombstone.
func (s Scope) ByID(ctx context.Context, id string) (sandbox.Sandbox, error) {
	sb, err := s.Record(ctx, id)
	if err == nil && sb.Deleted() {
		return sandbox.Sandbox{}, deleted("read sandbox", "sandbox", id)
	}
	return sb, err
}

// Record returns the sandbox, a tombstone too, or ErrNotFound.
func (s Scope) Record(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "id", `select `+sandboxColumns+` from sandboxes where tenant = $1 and id = $2`, id)
}

// ByName returns the sandbox that has the name, or ErrNotFound.
func (s Scope) ByName(ctx context.Context, name string) (sandbox.Sandbox, error) {
	return s.find(ctx, "name", `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and name = $2 and name <> '' and deleted_at is null`, name)
}

// occupies is the condition under which a sandbox has its owner and its name, as the unique indexes have
// it: until it is deleted, and then until nothing of it is left at its driver.
const occupies = `(deleted_at is null or state <> 'terminated' and not superseded)`

// Named returns the sandbox that has the name, also one that is being deleted, or ErrNotFound.
func (s Scope) Named(ctx context.Context, name string) (sandbox.Sandbox, error) {
	return s.find(ctx, "name", `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and name = $2 and name <> '' and `+occupies, name)
}

// Occupant returns the sandbox that has the owner, also one that is being deleted, or ErrNotFound.
func (s Scope) Occupant(ctx context.Context, kind sandbox.OwnerKind, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "owner "+string(kind), `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and owner_id = $2 and owner_kind = $3 and `+occupies, id, kind)
}

// ByOwner returns the owner's sandbox, or ErrNotFound. It is one lookup in one index.
func (s Scope) ByOwner(ctx context.Context, kind sandbox.OwnerKind, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "owner "+string(kind), `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and owner_id = $2 and owner_kind = cast($3 as text) and deleted_at is null`, id, kind)
}

// find reads one sandbox; what names it in the error, for people.
func (s Scope) find(ctx context.Context, what, text, ref string, more ...any) (sandbox.Sandbox, error) {
	const op = "read sandbox"
	args := append([]any{s.tenant, ref}, more...)
	if s.account != "" {
		args = append(args, s.account)
		text += fmt.Sprintf(" and account = $%d", len(args))
	}
	sb, err := first(ctx, s.db.read, scanSandbox, text, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return sb, sandbox.Errorf(op, api.CodeNotFound, "there is no sandbox with the %s %q", what, ref)
	}
	return sb, s.db.fail(op, err)
}

func deleted(op, what, id string) error {
	return sandbox.Errorf(op, api.CodeDeleted, "the %s %s was deleted", what, id)
}

// deleting is the answer to a request for an owner or a name that a deleted sandbox still has.
func deleting(op string, sb sandbox.Sandbox) error {
	return sandbox.Errorf(op, api.CodeDeleting, "%s has the sandbox %s, which is still being deleted", sb.Owner, sb.ID)
}

func notFound(op, what, id string) error {
	return sandbox.Errorf(op, api.CodeNotFound, "there is no %s %s", what, id)
}
