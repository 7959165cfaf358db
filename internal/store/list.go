package store

import (
	"context"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Filter narrows a list of sandboxes. Zero fields do not narrow; tombstones are left out unless
// asked for, but for those whose end is still under way when the state asked for is terminating.
type Filter struct {
	State          sandbox.State
	States         []sandbox.State // any of these
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
	l.within(s.account)
	if f.State == sandbox.Terminating {
		l.conditions = append(l.conditions, "state = 'terminating'") // those being deleted, too; they have an index
	} else if f.State != "" {
		l.where("state = cast($%d as text)", f.State)
	}
	if !f.IncludeDeleted && f.State != sandbox.Terminating {
		l.conditions = append(l.conditions, "deleted_at is null")
	}
	if f.OwnerKind != "" {
		l.where("owner_kind = cast($%d as text)", f.OwnerKind)
	}
	if f.Template != "" {
		l.where("template = $%d", f.Template)
	}
	if f.Driver != "" {
		l.where("driver = $%d", f.Driver)
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(f.States))) {
		l.orWhere("state = cast($%d as text)", state)
	}
	return l
}

// Idle returns up to limit sandboxes of one kind of owner that were not used for so long, that nobody
// holds and that are not asked to be gone, those longest unused first.
func (s Scope) Idle(ctx context.Context, kind sandbox.OwnerKind, idle time.Duration, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, s.db.read, scanSandbox, selectIdle, s.tenant, kind, idle.Microseconds(), clampLimit(limit))
	return found, s.db.fail("list idle sandboxes", err)
}

const selectIdle = `
	select ` + sandboxColumns + ` from sandboxes
	where owner_kind = cast($2 as text) and active_at <= {now-$3} and deleted_at is null and tenant = $1 and want <> 'gone'
		and not exists (select 1 from holds where holds.sandbox = sandboxes.id and holds.until > {now})
	order by active_at limit $4`

// Placed is what a record says of one instance.
type Placed struct {
	Sandbox  string
	Instance sandbox.InstanceID
	State    sandbox.State
}

// Placed lists what the records of every tenant say to have at a driver, on host or pinned to none, in
// the order of the sandboxes' ids from after on.
func (db *DB) Placed(ctx context.Context, driver, host, after string, limit int) ([]Placed, error) {
	placed, err := all(ctx, db.read, func(row scanner) (p Placed, err error) {
		err = row.Scan(&p.Sandbox, &p.Instance, &p.State)
		return p, err
	}, selectPlaced, driver, host, after, clampLimit(limit))
	return placed, db.fail("list what is placed", err)
}

const selectPlaced = `
	select id, instance, state from sandboxes
	where driver = $1 and host in ('', $2) and instance <> '' and id > $3 order by id limit $4`

// Installation is the id of whoever shares this database; it is made once.
func (db *DB) Installation(ctx context.Context) (string, error) {
	const op = "read the installation's id"
	if _, err := db.write.exec(ctx, `insert into settings (name, value) values ('installation', $1) on conflict (name) do nothing`, NewID()); err != nil {
		return "", db.fail(op, err)
	}
	id, err := first(ctx, db.write, scanOne[string], `select value from settings where name = 'installation'`)
	return id, db.fail(op, err)
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
