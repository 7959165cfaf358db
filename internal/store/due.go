package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/berthdev/berth/internal/sandbox"
)

// Due claims up to limit sandboxes that are due and have no lease holder, longest due first. It leaves out sandboxes
// pinned to another host.
//
// A claim moves the due time ahead by one lease lifetime. The statement skips rows that another replica is claiming,
// so that replicas share the work. A claim is not a lease: the caller still takes the lease. If the caller dies or
// finds the lease held, the sandbox becomes due again. A request after the claim makes the sandbox due at once.
//
// The cast keeps SQLite from preparing the statement again for each new value of limit.
func (db *DB) Due(ctx context.Context, host string, limit int) ([]sandbox.Sandbox, error) {
	claimed, err := all(ctx, db.write, db.scanSandbox, `
		with due as materialized (
			select id from sandboxes
			where due_at <= {now} and host in ('', $1)
				and not exists (select 1 from leases where kind = $2 and leases.id = sandboxes.id and leases.until > {now})
			order by due_at limit cast($3 as bigint) {skip locked}
		)
		update sandboxes set due_at = {now+$4} where id in (select id from due)
		returning `+sandboxColumns, host, LeaseSandbox, clampLimit(limit), db.ttl.Microseconds())
	return claimed, db.recordScan("claim due sandboxes", err)
}

// ListRunning lists the sandboxes of all tenants that are wanted running and are pinned to host or to no host,
// ordered by id, starting after the given one.
func (db *DB) ListRunning(ctx context.Context, host, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, db.scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where want = $1 and deleted_at is null and host in ('', $2) and sandboxes.id > $3
		order by sandboxes.id limit $4`, sandbox.WantRunning, host, after, clampLimit(limit))
	return found, db.fail("list running sandboxes", err)
}

// Sandbox returns a sandbox of any tenant, also a deleted one, or ErrNotFound.
func (db *DB) Sandbox(ctx context.Context, id string) (sandbox.Sandbox, error) {
	const op = "read sandbox"
	sb, err := first(ctx, db.read, db.scanSandbox, `select `+sandboxColumns+` from sandboxes where id = $1`, id)
	if errors.Is(err, sql.ErrNoRows) {
		return sb, notFound(op, "sandbox", id)
	}
	return sb, db.fail(op, err)
}
