package store

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// Filter narrows a list of sandboxes. Zero fields do not narrow; tombstones are left out unless
// asked for, but for those whose end is still under way when the state asked for is terminating.
type Filter struct {
	State          sandbox.State
	OwnerKind      sandbox.OwnerKind
	Template       string
	Driver         string
	IncludeDeleted bool
}

// Sandboxes returns one page of the tenant's sandboxes, newest first, and where the next one begins.
func (s Scope) Sandboxes(ctx context.Context, f Filter, page Page) ([]sandbox.Sandbox, Position, error) {
	l := s.sandboxes(f)
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list sandboxes", err)
}

func (s Scope) sandboxes(f Filter) listing[sandbox.Sandbox] {
	l := listing[sandbox.Sandbox]{
		columns: sandboxColumns, table: "sandboxes", scan: scanSandbox,
		position: func(sb sandbox.Sandbox) Position { return Position{sb.CreatedAt, sb.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	if f.State == sandbox.Terminating {
		l.conditions = append(l.conditions, "state = 'terminating'") // those being deleted, too; they have an index
	} else if f.State != "" {
		l.where("state = $%d", f.State)
	}
	if !f.IncludeDeleted && f.State != sandbox.Terminating {
		l.conditions = append(l.conditions, "deleted_at is null")
	}
	if f.OwnerKind != "" {
		l.where("owner_kind = $%d", f.OwnerKind)
	}
	if f.Template != "" {
		l.where("template = $%d", f.Template)
	}
	if f.Driver != "" {
		l.where("driver = $%d", f.Driver)
	}
	return l
}

// Count returns how many sandboxes the tenant has, tombstones not counted.
func (s Scope) Count(ctx context.Context) (int64, error) {
	n, err := first(ctx, s.db.read, scanOne[int64],
		`select count(*) from sandboxes where tenant = $1 and deleted_at is null`, s.tenant)
	return n, s.db.fail("count sandboxes", err)
}

// CountByState returns how many sandboxes of all tenants are in each state, tombstones not counted.
func (db *DB) CountByState(ctx context.Context) (map[sandbox.State]int64, error) {
	counts := map[sandbox.State]int64{}
	_, err := all(ctx, db.read, func(row scanner) (n int64, err error) {
		var state sandbox.State
		err = row.Scan(&state, &n)
		counts[state] = n
		return n, err
	}, `select state, count(*) from sandboxes where deleted_at is null group by state`)
	return counts, db.fail("count sandboxes", err)
}

func scanOne[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}
