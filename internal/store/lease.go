package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"

	"github.com/berthdev/berth/internal/sandbox"
)

// LeaseSandbox is the kind of lease that protects all work on a sandbox. Other kinds are named by their users.
const LeaseSandbox = "sandbox"

// leaseFree is the condition for taking a lease.
const leaseFree = `leases.until <= {now}`

// Lease is the right of one holder to work on one thing. Epoch rises by 1 each time the lease is taken, and fences
// the holder's writes.
type Lease struct {
	Kind, ID string
	Holder   string
	Epoch    int64
	Until    time.Time // expiry by the database's clock; the lease is free afterwards
}

// Grant is the result of a request for a lease.
type Grant struct {
	OK      bool
	Lease   Lease           // the granted lease if OK, otherwise the lease that blocks it
	Sandbox sandbox.Sandbox // for LeaseSandbox: the sandbox's record when the lease was taken
}

// LeaseTable takes, renews and releases leases.
type LeaseTable struct{ db *DB }

// Leases returns the table of leases.
func (db *DB) Leases() LeaseTable { return LeaseTable{db} }

// Lease requests a lease and does not wait: a held lease is not granted, not even to its holder. For LeaseSandbox
// the epoch becomes the sandbox's generation in the same statement.
func (leases LeaseTable) Lease(ctx context.Context, kind, id, holder string) (Grant, error) {
	const op = "take lease"
	ask := Lease{Kind: kind, ID: id, Holder: holder}
	take := leases.takeAny
	if kind == LeaseSandbox {
		take = leases.takeSandbox
	}
	grant, err := take(ctx, ask)
	if !errors.Is(err, sql.ErrNoRows) {
		return grant, leases.db.fail(op, err)
	}
	other, err := first(ctx, leases.db.read, scanLease(ask),
		`select epoch, until, holder from leases where kind = $1 and id = $2`, kind, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Grant{}, notFound(op, kind, id)
	}
	return Grant{Lease: other}, leases.db.fail(op, err)
}

// takeAny takes a lease of any kind but LeaseSandbox. It returns sql.ErrNoRows if the lease is held.
func (leases LeaseTable) takeAny(ctx context.Context, ask Lease) (Grant, error) {
	l, err := first(ctx, leases.db.write, scanLease(ask), `
		insert into leases (kind, id, holder, epoch, until) values ($1, $2, $3, 1, {now+$4})
		on conflict (kind, id) do update
			set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
			where `+leaseFree+`
		returning epoch, until, holder`, ask.Kind, ask.ID, ask.Holder, leases.db.ttl.Microseconds())
	return Grant{OK: err == nil, Lease: l}, err
}

func (leases LeaseTable) takeSandbox(ctx context.Context, ask Lease) (Grant, error) {
	return leases.db.dialect.takeSandbox(ctx, leases.db, ask)
}

// insertSandboxLease takes the lease of a sandbox. It inserts nothing if there is no such sandbox.
const insertSandboxLease = `
	insert into leases (kind, id, holder, epoch, until)
	select cast($1 as text), s.id, cast($3 as text), s.generation + 1, {now+$4} from sandboxes s where s.id = $2
	on conflict (kind, id) do update
		set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
		where ` + leaseFree + `
	returning epoch, until, holder`

// takeSandboxPostgres uses one statement: both tables change, or neither.
func takeSandboxPostgres(ctx context.Context, db *DB, ask Lease) (g Grant, err error) {
	return first(ctx, db.write, db.Leases().scanGrant(ask), `
		with taken as (`+insertSandboxLease+`)
		update sandboxes set generation = taken.epoch from taken where sandboxes.id = $2
		returning taken.epoch, taken.until, taken.holder, `+sandboxColumns,
		ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds())
}

// takeSandboxSQLite uses a transaction, because SQLite has no writing subqueries.
func takeSandboxSQLite(ctx context.Context, db *DB, ask Lease) (g Grant, err error) {
	err = db.inTx(ctx, func(tx *txn) error {
		g.Lease, err = first(ctx, tx, scanLease(ask), insertSandboxLease, ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds())
		if err != nil {
			return err
		}
		g.Sandbox, err = first(ctx, tx, db.scanSandbox,
			`update sandboxes set generation = $2 where id = $1 returning `+sandboxColumns, ask.ID, g.Lease.Epoch)
		return err
	})
	g.OK = err == nil
	return g, err
}

// endAll ends all leases of earlier processes. The caller must know that these processes have ended.
func (leases LeaseTable) endAll(ctx context.Context) error {
	return leases.db.inTx(ctx, func(tx *txn) error {
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

// prefixScanner scans extra columns before the columns of another scan.
type prefixScanner struct {
	row  scanner
	dest []any
}

// Scan implements scanner.
func (a prefixScanner) Scan(dest ...any) error { return a.row.Scan(append(a.dest, dest...)...) }

func (leases LeaseTable) scanGrant(ask Lease) func(scanner) (Grant, error) {
	return func(row scanner) (g Grant, err error) {
		g = Grant{OK: true, Lease: ask}
		g.Sandbox, err = leases.db.scanSandbox(prefixScanner{row, []any{&g.Lease.Epoch, instant{&g.Lease.Until}, &g.Lease.Holder}})
		return g, err
	}
}

// Renew extends the lease to its full lifetime. It returns ErrStale when the lease was taken or released. An
// expired lease that no other holder took is still valid.
func (leases LeaseTable) Renew(ctx context.Context, l Lease) error {
	const op = "renew lease"
	n, err := leases.db.write.exec(ctx, `
		update leases set until = {now+$5} where kind = $1 and id = $2 and holder = $3 and epoch = $4`,
		l.Kind, l.ID, l.Holder, l.Epoch, leases.db.ttl.Microseconds())
	if err == nil && n == 0 {
		return stale(op, l.Kind+" "+l.ID)
	}
	return leases.db.fail(op, err)
}

// Release ends the lease if it is still held. A concurrent renewal cannot revive it.
func (leases LeaseTable) Release(ctx context.Context, l Lease) error {
	_, err := leases.db.write.exec(ctx, `
		update leases set until = {now}, holder = '' where kind = $1 and id = $2 and holder = $3 and epoch = $4`,
		l.Kind, l.ID, l.Holder, l.Epoch)
	return leases.db.fail("release lease", err)
}

// Leases renews and releases leases.
type Leases interface {
	Renew(ctx context.Context, l Lease) error
	Release(ctx context.Context, l Lease) error
}

// RenewLoop renews the lease until stop is called. stop releases the lease. The returned context ends when another
// holder took the lease, or when the lease expired because it could not be renewed. taken is the local time at which
// the lease was requested. The local expiry is counted from it.
func RenewLoop(ctx context.Context, leases Leases, l Lease, ttl time.Duration, taken time.Time) (held context.Context, stop func() error) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			err := RenewOnce(held, leases, l, ttl)
			if err == nil {
				taken = asked
			} else if errors.Is(err, fault.ErrStale) || time.Since(taken) > ttl {
				cancel(fault.Errorf("renew lease", api.CodeStale, "the lease of %s %s is lost: %w", l.Kind, l.ID, err))
			}
		}
	}()
	return held, func() error {
		cancel(nil)
		<-done
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
		defer cancel()
		return leases.Release(ctx, l)
	}
}

// RenewOnce renews the lease with a timeout of a third of its lifetime, which leaves time for another attempt.
func RenewOnce(ctx context.Context, leases Leases, l Lease, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, ttl/3)
	defer cancel()
	return leases.Renew(ctx, l)
}
