package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// TenantID names a tenant.
type TenantID string

// Scope is one tenant's part of the database. Rows of other tenants are neither read nor written. To callers they do
// not exist.
type Scope struct {
	db      *DB
	tenant  TenantID
	account string // the only account whose sandboxes and conversations are visible; empty: all
}

// In returns the tenant's scope. It does not query the database: the scope of an unknown tenant is empty.
func (db *DB) In(t TenantID) Scope { return Scope{db: db, tenant: t} }

// Within returns the scope narrowed to one account: sandboxes, conversations and usage of other accounts are not
// found. An empty account does not narrow.
func (s Scope) Within(account string) Scope {
	s.account = account
	return s
}

// OnlyAccount returns the account that the scope is narrowed to, empty for none.
func (s Scope) OnlyAccount() string { return s.account }

// scopedID returns the id of the tenant's row if another tenant has a row with the id; see [sandbox.ScopedID].
func (s Scope) scopedID(id string) string { return sandbox.ScopedID(string(s.tenant), id) }

// SandboxID returns the id under which the tenant's sandbox with a chosen id is stored, or will be.
func (s Scope) SandboxID(ctx context.Context, chosen string) (string, error) {
	return s.storedID(ctx, "sandboxes", chosen)
}

// ConversationID is SandboxID for conversations.
func (s Scope) ConversationID(ctx context.Context, chosen string) (string, error) {
	return s.storedID(ctx, "conversations", chosen)
}

func (s Scope) storedID(ctx context.Context, table, chosen string) (string, error) {
	scoped := s.scopedID(chosen)
	taken, err := first(ctx, s.db.read, scanOne[int64], `select count(*) from `+table+` where id = $2 and tenant <> $1 or id = $3`, s.tenant, chosen, scoped)
	if err == nil && taken > 0 {
		return scoped, nil
	}
	return chosen, s.db.fail("find id", err)
}

// Tenant returns the scope's tenant.
func (s Scope) Tenant() TenantID { return s.tenant }

// ByID returns the sandbox, ErrNotFound, or ErrDeleted for a deleted one.
func (s Scope) ByID(ctx context.Context, id string) (sandbox.Sandbox, error) {
	sb, err := s.ByIDOrDeleted(ctx, id)
	if err == nil && sb.Deleted() {
		return sandbox.Sandbox{}, deleted("read sandbox", "sandbox", id)
	}
	return sb, err
}

// ByIDOrDeleted returns the sandbox, also a deleted one, or ErrNotFound.
func (s Scope) ByIDOrDeleted(ctx context.Context, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "id", `select `+sandboxColumns+` from sandboxes where tenant = $1 and id in ($2, $3)`, id, s.scopedID(id))
}

// ByName returns the sandbox that has the name, or ErrNotFound.
func (s Scope) ByName(ctx context.Context, name string) (sandbox.Sandbox, error) {
	return s.find(ctx, "name", `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and name = $2 and name <> '' and deleted_at is null`, name)
}

// occupies is the condition under which a sandbox holds its owner and its name, as in the unique indexes: until it
// is deleted and terminated.
const occupies = `(deleted_at is null or state <> 'terminated' and not superseded)`

// ByNameOrDeleting returns the sandbox that has the name, also one that is being deleted, or ErrNotFound.
func (s Scope) ByNameOrDeleting(ctx context.Context, name string) (sandbox.Sandbox, error) {
	return s.find(ctx, "name", `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and name = $2 and name <> '' and `+occupies, name)
}

// ByOwnerOrDeleting returns the owner's sandbox, also one that is being deleted, or ErrNotFound.
func (s Scope) ByOwnerOrDeleting(ctx context.Context, kind sandbox.OwnerKind, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "owner "+string(kind), `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and owner_id = $2 and owner_kind = $3 and `+occupies, id, kind)
}

// ByOwner returns the owner's sandbox, or ErrNotFound. It is one lookup in one index.
func (s Scope) ByOwner(ctx context.Context, kind sandbox.OwnerKind, id string) (sandbox.Sandbox, error) {
	return s.find(ctx, "owner "+string(kind), `select `+sandboxColumns+` from sandboxes
		where tenant = $1 and owner_id = $2 and owner_kind = cast($3 as text) and deleted_at is null`, id, kind)
}

// find reads one sandbox. what and ref name it in the error.
func (s Scope) find(ctx context.Context, what, text, ref string, more ...any) (sandbox.Sandbox, error) {
	const op = "read sandbox"
	args := append([]any{s.tenant, ref}, more...)
	if s.account != "" {
		args = append(args, s.account)
		text += fmt.Sprintf(" and account = $%d", len(args))
	}
	sb, err := first(ctx, s.db.read, s.db.scanSandbox, text, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return sb, fault.Errorf(op, api.CodeNotFound, "there is no sandbox with the %s %q", what, ref)
	}
	return sb, s.db.fail(op, err)
}

func deleted(op, what, id string) error {
	return fault.Errorf(op, api.CodeDeleted, "the %s %s was deleted", what, id)
}

// deleting returns the error for an owner or a name that a sandbox being deleted still holds.
func deleting(op string, sb sandbox.Sandbox) error {
	return fault.Errorf(op, api.CodeDeleting, "%s has the sandbox %s, which is still being deleted", sb.Owner, sb.ID)
}

func notFound(op, what, id string) error {
	return fault.Errorf(op, api.CodeNotFound, "there is no %s %s", what, id)
}
