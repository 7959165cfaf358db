package store

import (
	"context"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Filter narrows a list of sandboxes. Zero fields do not narrow. Deleted sandboxes are left out unless they are
// requested. The state terminating also selects deleted sandboxes whose end is not complete.
type Filter struct {
	State          sandbox.State
	States         []sandbox.State // any of these states
	OwnerKind      sandbox.OwnerKind
	Template       string
	Driver         string
	IncludeDeleted bool
	Deleted        bool // only deleted sandboxes
}

// Sandboxes returns one page of the tenant's sandboxes, newest first, and the position of the next page.
func (s Scope) Sandboxes(ctx context.Context, f Filter, page Page) ([]sandbox.Sandbox, Position, error) {
	l := s.sandboxes(f)
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list sandboxes", err)
}

func (s Scope) sandboxes(f Filter) listing[sandbox.Sandbox] {
	l := listing[sandbox.Sandbox]{
		columns: sandboxColumns, table: "sandboxes", scan: s.db.scanSandbox,
		position: func(sb sandbox.Sandbox) Position { return Position{sb.CreatedAt, sb.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	l.within(s.account)
	if f.State == sandbox.Terminating {
		l.conditions = append(l.conditions, "state = 'terminating'") // includes deleted sandboxes; this state has an index
	} else if f.State != "" {
		l.where("state = cast($%d as text)", f.State)
	}
	switch {
	case f.Deleted:
		l.conditions = append(l.conditions, "deleted_at is not null")
	case !f.IncludeDeleted && f.State != sandbox.Terminating:
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

// ListIdle returns up to limit sandboxes of one kind of owner, least recently used first. It leaves out
// sandboxes that were used within idle, have a hold, or are wanted gone.
func (s Scope) ListIdle(ctx context.Context, kind sandbox.OwnerKind, idle time.Duration, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, s.db.read, s.db.scanSandbox, selectIdle, s.tenant, kind, idle.Microseconds(), clampLimit(limit))
	return found, s.db.fail("list idle sandboxes", err)
}

const selectIdle = `
	select ` + sandboxColumns + ` from sandboxes
	where owner_kind = cast($2 as text) and active_at <= {now-$3} and deleted_at is null and tenant = $1 and want <> 'gone'
		and not exists (select 1 from holds where holds.sandbox = sandboxes.id and holds.until > {now})
	order by active_at limit $4`

// InstanceRecord is an instance that is recorded in a sandbox's row.
type InstanceRecord struct {
	Sandbox  string
	Instance sandbox.InstanceID
	State    sandbox.State
}

// ListInstances lists the recorded instances of a driver, of all tenants, for sandboxes pinned to host or to no host.
// They are ordered by sandbox id and start after the given one.
func (db *DB) ListInstances(ctx context.Context, driver, host, after string, limit int) ([]InstanceRecord, error) {
	placed, err := all(ctx, db.read, func(row scanner) (p InstanceRecord, err error) {
		err = row.Scan(&p.Sandbox, &p.Instance, &p.State)
		return p, err
	}, selectInstances, driver, host, after, clampLimit(limit))
	return placed, db.recordScan("list instances", err)
}

const selectInstances = `
	select id, instance, state from sandboxes
	where driver = $1 and host in ('', $2) and instance <> '' and id > $3 order by id limit $4`

// Installation returns the id of this installation, which all servers of the database share. The first call creates
// it.
func (o Overview) Installation(ctx context.Context) (string, error) {
	const op = "read the installation's id"
	if _, err := o.db.write.exec(ctx, `insert into settings (name, value) values ('installation', $1) on conflict (name) do nothing`, NewID()); err != nil {
		return "", o.db.fail(op, err)
	}
	id, err := first(ctx, o.db.write, scanOne[string], `select value from settings where name = 'installation'`)
	return id, o.db.fail(op, err)
}

// Count returns the number of the tenant's sandboxes, without deleted ones.
func (s Scope) Count(ctx context.Context) (int64, error) {
	n, err := first(ctx, s.db.read, scanOne[int64],
		`select count(*) from sandboxes where tenant = $1 and deleted_at is null`, s.tenant)
	return n, s.db.fail("count sandboxes", err)
}

func scanOne[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// TemplateUse is the number of a tenant's sandboxes with one template.
type TemplateUse struct {
	Tenant, Template string
	Sandboxes        int64
}

// TemplateUses counts the sandboxes of all tenants by template, without deleted ones.
func (o Overview) TemplateUses(ctx context.Context) ([]TemplateUse, error) {
	uses, err := all(ctx, o.db.read, func(row scanner) (u TemplateUse, err error) {
		err = row.Scan(&u.Tenant, &u.Template, &u.Sandboxes)
		return u, err
	}, `select tenant, template, count(*) from sandboxes where deleted_at is null group by tenant, template order by tenant, template`)
	return uses, o.db.fail("count sandboxes by template", err)
}

// SandboxesOf lists the ids of a tenant's sandboxes with one template, without deleted ones.
func (o Overview) SandboxesOf(ctx context.Context, tenant, template string, limit int) ([]string, error) {
	ids, err := all(ctx, o.db.read, scanOne[string], `
		select id from sandboxes where tenant = $1 and template = $2 and deleted_at is null order by id limit $3`, tenant, template, clampLimit(limit))
	return ids, o.db.fail("list sandboxes by template", err)
}

// History returns up to limit entries of a sandbox's history, newest first, starting below the entry number before;
// 0 starts at the newest. Next is the argument for the next page, 0 at the end. Deleted sandboxes keep their
// history.
func (s Scope) History(ctx context.Context, id string, limit int, before int64) (items []sandbox.Transition, next int64, err error) {
	if _, err := s.ByIDOrDeleted(ctx, id); err != nil {
		return nil, 0, err
	}
	if before <= 0 {
		before = 1 << 62
	}
	items, err = all(ctx, s.db.read, scanTransition, `
		select seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance
		from history where sandbox = $1 and seq < $2 order by seq desc limit $3`, id, before, clampLimit(limit))
	if err != nil {
		return nil, 0, s.db.fail("read history", err)
	}
	if n := len(items); n > 0 && items[n-1].Seq > 1 {
		next = items[n-1].Seq
	}
	return items, next, nil
}

func scanTransition(row scanner) (t sandbox.Transition, err error) {
	err = row.Scan(&t.Seq, instant{&t.At}, &t.Event, &t.From, &t.To, &t.Want, &t.Reason, &t.Actor,
		&t.Generation, &t.Incarnation, &t.Instance)
	return t, err
}
