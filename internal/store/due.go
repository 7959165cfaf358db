package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/berthdev/berth/internal/sandbox"
)

// Due claims up to limit sandboxes that are due and that nobody holds the lease of, longest due
// first: those pinned to host and those pinned to none.
//
// A claim moves the due time one lease's life ahead, in one statement that passes over rows that
// another replica is claiming, so that replicas share the work. It promises nothing: whoever claims
// still takes the lease, and when the claimer dies or finds the lease held, the sandbox is simply due
// again. A wish made after the claim makes it due at once.
//
// SQLite plans a statement anew whenever a bare parameter of its limit is given; hence the cast.
func (db *DB) Due(ctx context.Context, host string, limit int) ([]sandbox.Sandbox, error) {
	claimed, err := all(ctx, db.write, scanSandbox, `
		with due as materialized (
			select id from sandboxes
			where due_at <= {now} and host in ('', $1)
				and not exists (select 1 from leases where kind = $2 and leases.id = sandboxes.id and leases.until > {now})
			order by due_at limit cast($3 as bigint) {skip locked}
		)
		update sandboxes set due_at = {now+$4} where id in (select id from due)
		returning `+sandboxColumns, host, LeaseSandbox, clampLimit(limit), db.ttl.Microseconds())
	return claimed, db.scanned("claim due sandboxes", err)
}

// Up lists sandboxes of every tenant that are wanted running, on host or pinned to none, in the order of
// their ids from after on.
func (db *DB) Up(ctx context.Context, host, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where want = $1 and deleted_at is null and host in ('', $2) and sandboxes.id > $3
		order by sandboxes.id limit $4`, sandbox.WantRunning, host, after, clampLimit(limit))
	return found, db.fail("list running sandboxes", err)
}

// Sandbox returns a sandbox of any tenant, a tombstone too, or ErrNotFound.
func (db *DB) Sandbox(ctx context.Context, id string) (sandbox.Sandbox, error) {
	const op = "read sandbox"
	sb, err := first(ctx, db.read, scanSandbox, `select `+sandboxColumns+` from sandboxes where id = $1`, id)
	if errors.Is(err, sql.ErrNoRows) {
		return sb, notFound(op, "sandbox", id)
	}
	return sb, db.fail(op, err)
}
