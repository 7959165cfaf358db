package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// The kinds of things that are counted per tenant.
const (
	QuotaSandboxes = "sandboxes" // those not deleted
	QuotaTurns     = "turns"     // those running
)

// count is what a change does to a quota. The counter's row changes in the same statement, or
// transaction, as what it counts, and its own constraint refuses more than the cap: nobody ever looks
// first and adds later.
type count struct {
	by  int64
	cap int64
}

var freed = count{by: -1}

func taken(cap int64) count { return count{by: 1, cap: cap} }

// text is the statement that counts the sandbox in source, a table with a condition; its arguments come
// after n others.
func (c count) text(source string, n int) string {
	if c.by < 0 {
		return fmt.Sprintf(`update quotas set used = used - 1 where kind = '%s' and used > 0 and tenant in (select tenant from %s)`, QuotaSandboxes, source)
	}
	return countUp(fmt.Sprintf(`tenant, '%s'`, QuotaSandboxes), source, n+1)
}

func (c count) args() []any {
	if c.by < 0 {
		return nil
	}
	return []any{c.cap}
}

// countUp counts one more of what is in source, under the cap that is argument n. Without a condition in
// source, SQLite would take on conflict for a join's.
func countUp(columns, source string, n int) string {
	return fmt.Sprintf(`insert into quotas (tenant, kind, used, cap)
		select %s, 1, cast($%d as bigint) from %s
		on conflict (tenant, kind) do update set used = quotas.used + 1, cap = excluded.cap`, columns, n, source)
}

func overQuota(op, kind string, cap int64) error {
	e := sandbox.Errorf(op, api.CodeQuotaExceeded, "the tenant may have %d %s at once, and has them", cap, kind)
	e.Hint = fmt.Sprintf("End some that are not needed, or raise max_%s_per_tenant.", kind)
	return e
}

// Used returns how many of a kind the tenant has.
func (s Scope) Used(ctx context.Context, kind string) (int64, error) {
	used, err := all(ctx, s.db.read, scanOne[int64], `select used from quotas where tenant = $1 and kind = $2`, s.tenant, kind)
	if err != nil || len(used) == 0 {
		return 0, s.db.fail("read quota", err)
	}
	return used[0], nil
}

// Reserve takes one of the tenant's places of a kind for ref, until the given time unless it is
// prolonged by reserving it again. With no place left it is CodeQuotaExceeded. A cap of 0 is none.
func (s Scope) Reserve(ctx context.Context, kind, ref string, cap int64, until time.Time) error {
	const op = "reserve place"
	made, err := s.db.dialect.reserve(ctx, s, kind, ref, cap, until)
	switch {
	case s.db.dialect.overQuota(err):
		return overQuota(op, kind, cap)
	case err != nil || made:
		return s.db.fail(op, err)
	}
	_, err = s.db.write.exec(ctx, `update reservations set until = $4 where tenant = $1 and kind = $2 and ref = $3`,
		s.tenant, kind, ref, at(until))
	return s.db.fail(op, err)
}

const insertReservation = `insert into reservations (tenant, kind, ref, until) values ($1, $2, $3, $4)
	on conflict (tenant, kind, ref) do nothing`

func reservePostgres(ctx context.Context, s Scope, kind, ref string, cap int64, until time.Time) (made bool, err error) {
	n, err := first(ctx, s.db.write, scanOne[int64], `
		with made as (`+insertReservation+` returning tenant, kind),
			counted as (`+countUp("tenant, kind", "made where true", 5)+`)
		select count(*) from made`, s.tenant, kind, ref, at(until), cap)
	return n > 0, err
}

func reserveSQLite(ctx context.Context, s Scope, kind, ref string, cap int64, until time.Time) (made bool, err error) {
	err = s.db.atomically(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, insertReservation, s.tenant, kind, ref, at(until))
		if made = n > 0; err != nil || !made {
			return err
		}
		_, err = tx.exec(ctx, countUp("tenant, kind", "reservations where tenant = $1 and kind = $2 and ref = $3", 4), s.tenant, kind, ref, cap)
		return err
	})
	return made, err
}

// Free gives a place back. One that is free already is no error.
func (s Scope) Free(ctx context.Context, kind, ref string) error {
	_, err := s.db.dialect.free(ctx, s.db, `delete from reservations where tenant = $1 and kind = $2 and ref = $3`, s.tenant, kind, ref)
	return s.db.fail("free place", err)
}

// ExpireReservations gives back up to limit places that nobody prolonged, and returns how many.
func (db *DB) ExpireReservations(ctx context.Context, limit int) (int64, error) {
	n, err := db.dialect.free(ctx, db, `
		delete from reservations where (tenant, kind, ref) in
			(select tenant, kind, ref from reservations where until <= {now} order by until limit $1 {skip locked})`, clampLimit(limit))
	return n, db.fail("expire places", err)
}

// countDown counts those in source off their quotas.
const countDown = `update quotas set used = used - gone.n
	from (select tenant, kind, count(*) as n from %s group by tenant, kind) as gone
	where quotas.tenant = gone.tenant and quotas.kind = gone.kind`

func freePostgres(ctx context.Context, db *DB, remove string, args ...any) (int64, error) {
	return first(ctx, db.write, scanOne[int64],
		`with ended as (`+remove+` returning tenant, kind), counted as (`+fmt.Sprintf(countDown, "ended")+`) select count(*) from ended`, args...)
}

func freeSQLite(ctx context.Context, db *DB, remove string, args ...any) (n int64, err error) {
	err = db.atomically(ctx, func(tx *txn) error {
		ended, err := all(ctx, tx, func(row scanner) (k [2]string, err error) {
			err = row.Scan(&k[0], &k[1])
			return k, err
		}, remove+` returning tenant, kind`, args...)
		for _, k := range ended {
			_, failed := tx.exec(ctx, `update quotas set used = used - 1 where tenant = $1 and kind = $2`, k[0], k[1])
			err = errors.Join(err, failed)
		}
		n = int64(len(ended))
		return err
	})
	return n, err
}
