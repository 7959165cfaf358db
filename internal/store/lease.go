package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// LeaseSandbox is the kind of lease that everything done to a sandbox is done under. Other kinds are
// names that their users choose.
const LeaseSandbox = "sandbox"

// leaseFree is when a lease may be taken.
const leaseFree = `leases.until <= {now}`

// Lease is one holder's turn at one thing. Epoch is +1 each time the lease is taken, and fences what
// the holder writes.
type Lease struct {
	Kind, ID string
	Holder   string
	Epoch    int64
	Until    time.Time // by the database's clock; after it, anybody may take the lease
}

// Grant is the answer to asking for a lease.
type Grant struct {
	OK      bool
	Lease   Lease           // ours if OK, else the one that stands in the way
	Sandbox sandbox.Sandbox // for LeaseSandbox: the record at the moment the lease was taken
}

// Lease asks for a lease, and does not wait: one that is held, by the same holder even, is not
// granted. A lease of LeaseSandbox makes its epoch the sandbox's generation, in the same statement.
func (db *DB) Lease(ctx context.Context, kind, id, holder string) (Grant, error) {
	const op = "take lease"
	ask := Lease{Kind: kind, ID: id, Holder: holder}
	take := db.takeAny
	if kind == LeaseSandbox {
		take = db.takeSandbox
	}
	grant, err := take(ctx, ask)
	if !errors.Is(err, sql.ErrNoRows) {
		return grant, db.fail(op, err)
	}
	other, err := first(ctx, db.read, scanLease(ask),
		`select epoch, until, holder from leases where kind = $1 and id = $2`, kind, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Grant{}, notFound(op, kind, id)
	}
	return Grant{Lease: other}, db.fail(op, err)
}

// takeAny returns sql.ErrNoRows when the lease is held.
func (db *DB) takeAny(ctx context.Context, ask Lease) (Grant, error) {
	l, err := first(ctx, db.write, scanLease(ask), `
		insert into leases (kind, id, holder, epoch, until) values ($1, $2, $3, 1, {now+$4})
		on conflict (kind, id) do update
			set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
			where `+leaseFree+`
		returning epoch, until, holder`, ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds())
	return Grant{OK: err == nil, Lease: l}, err
}

func (db *DB) takeSandbox(ctx context.Context, ask Lease) (Grant, error) {
	return db.dialect.takeSandbox(ctx, db, ask)
}

// insertSandboxLease takes nothing when there is no such sandbox.
const insertSandboxLease = `
	insert into leases (kind, id, holder, epoch, until)
	select cast($1 as text), s.id, cast($3 as text), s.generation + 1, {now+$4} from sandboxes s where s.id = $2
	on conflict (kind, id) do update
		set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
		where ` + leaseFree + `
	returning epoch, until, holder`

// takeSandboxPostgres is one statement: both tables change, or none.
func takeSandboxPostgres(ctx context.Context, db *DB, ask Lease) (g Grant, err error) {
	return first(ctx, db.write, scanGrant(ask), `
		with taken as (`+insertSandboxLease+`)
		update sandboxes set generation = taken.epoch from taken where sandboxes.id = $2
		returning taken.epoch, taken.until, taken.holder, `+sandboxColumns,
		ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds())
}

// takeSandboxSQLite needs a transaction: SQLite has no writing subqueries.
func takeSandboxSQLite(ctx context.Context, db *DB, ask Lease) (g Grant, err error) {
	err = db.atomically(ctx, func(tx *txn) error {
		g.Lease, err = first(ctx, tx, scanLease(ask), insertSandboxLease, ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds())
		if err != nil {
			return err
		}
		g.Sandbox, err = first(ctx, tx, scanSandbox,
			`update sandboxes set generation = $2 where id = $1 returning `+sandboxColumns, ask.ID, g.Lease.Epoch)
		return err
	})
	g.OK = err == nil
	return g, err
}

// endLeases ends what earlier processes held. Whoever calls it must know that they are gone.
func (db *DB) endLeases(ctx context.Context) error {
	return db.atomically(ctx, func(tx *txn) error {
		if _, err := tx.exec(ctx, `update leases set until = {now}, holder = '' where holder <> ''`); err != nil {
			return err
		}
		_, err := tx.exec(ctx, `update idempotency_keys set until = {now}, holder = '' where status = 0 and holder <> ''`)
		return err
	})
}

func scanLease(ask Lease) func(scanner) (Lease, error) {
	return func(row scanner) (Lease, error) {
		l := ask
		err := row.Scan(&l.Epoch, instant{&l.Until}, &l.Holder)
		return l, err
	}
}

// ahead reads columns that stand before those of another scan.
type ahead struct {
	row  scanner
	dest []any
}

// Scan implements scanner.
func (a ahead) Scan(dest ...any) error { return a.row.Scan(append(a.dest, dest...)...) }

func scanGrant(ask Lease) func(scanner) (Grant, error) {
	return func(row scanner) (g Grant, err error) {
		g = Grant{OK: true, Lease: ask}
		g.Sandbox, err = scanSandbox(ahead{row, []any{&g.Lease.Epoch, instant{&g.Lease.Until}, &g.Lease.Holder}})
		return g, err
	}
}

// Renew makes the lease last its full time again, or returns ErrStale when it was taken or released.
// A lease that expired unnoticed by anybody is still its holder's.
func (db *DB) Renew(ctx context.Context, l Lease) error {
	const op = "renew lease"
	n, err := db.write.exec(ctx, `
		update leases set until = {now+$5} where kind = $1 and id = $2 and holder = $3 and epoch = $4`,
		l.Kind, l.ID, l.Holder, l.Epoch, db.ttl.Microseconds())
	if err == nil && n == 0 {
		return stale(op, l.Kind+" "+l.ID)
	}
	return db.fail(op, err)
}

// Release ends the lease at once if it is still held. A renewal on its way can no longer revive it.
func (db *DB) Release(ctx context.Context, l Lease) error {
	_, err := db.write.exec(ctx, `
		update leases set until = {now}, holder = '' where kind = $1 and id = $2 and holder = $3 and epoch = $4`,
		l.Kind, l.ID, l.Holder, l.Epoch)
	return db.fail("release lease", err)
}
