package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reservations reserves slots of a tenant's quotas.
type Reservations struct{ scope Scope }

// Reservations returns the tenant's reservations.
func (s Scope) Reservations() Reservations { return Reservations{s} }

// Reserve takes one of the tenant's reservations of a kind for ref until the given time. If ref has a reservation,
// Reserve extends it. It returns CodeQuotaExceeded when cap reservations are taken. A cap of 0 is unlimited.
func (slots Reservations) Reserve(ctx context.Context, kind, ref string, cap int64, until time.Time) error {
	const op = "reserve place"
	for {
		done, err := slots.reserve(ctx, kind, ref, cap, until)
		switch {
		case slots.scope.db.dialect.overQuota(err):
			// Expired reservations must not block others until the next sweep.
			if n, err := slots.expire(ctx, kind); err != nil {
				return slots.scope.db.fail(op, err)
			} else if n == 0 {
				return overQuota(op, kind, cap)
			}
		case err != nil || done:
			return slots.scope.db.fail(op, err)
		}
	}
}

// reserve makes the reservation or extends an existing one. done is false if the existing one ended between the two
// statements.
func (slots Reservations) reserve(ctx context.Context, kind, ref string, cap int64, until time.Time) (done bool, err error) {
	if made, err := slots.scope.db.dialect.reserve(ctx, slots.scope, kind, ref, cap, until); err != nil || made {
		return made, err
	}
	n, err := slots.scope.db.write.exec(ctx, `update reservations set until = $4 where tenant = $1 and kind = $2 and ref = $3`,
		slots.scope.tenant, kind, ref, at(until))
	return n > 0, err
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
	err = s.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, insertReservation, s.tenant, kind, ref, at(until))
		if made = n > 0; err != nil || !made {
			return err
		}
		_, err = tx.exec(ctx, countUp("tenant, kind", "reservations where tenant = $1 and kind = $2 and ref = $3", 4), s.tenant, kind, ref, cap)
		return err
	})
	return made, err
}

// Free releases a reservation. Releasing one that does not exist is not an error.
func (slots Reservations) Free(ctx context.Context, kind, ref string) error {
	_, err := slots.scope.db.dialect.free(ctx, slots.scope.db, `delete from reservations where tenant = $1 and kind = $2 and ref = $3`, slots.scope.tenant, kind, ref)
	return slots.scope.db.fail("free place", err)
}

// ExpireReservations removes up to limit expired reservations and returns how many.
func (db *DB) ExpireReservations(ctx context.Context, limit int) (int64, error) {
	n, err := db.dialect.free(ctx, db, fmt.Sprintf(removeExpired, ""), clampLimit(limit))
	return n, db.recordScan("expire places", err)
}

// expire removes expired reservations of one kind of the tenant and returns how many.
func (slots Reservations) expire(ctx context.Context, kind string) (int64, error) {
	return slots.scope.db.dialect.free(ctx, slots.scope.db, fmt.Sprintf(removeExpired, "and tenant = $2 and kind = $3"), MaxLimit, slots.scope.tenant, kind)
}

const removeExpired = `
	delete from reservations where (tenant, kind, ref) in
		(select tenant, kind, ref from reservations where until <= {now} %s order by until limit $1 {skip locked})`

// freePostgres uses one statement. It locks the counters in a fixed order, so that two calls for the same tenants
// cannot deadlock.
func freePostgres(ctx context.Context, db *DB, remove string, args ...any) (int64, error) {
	return first(ctx, db.write, scanOne[int64], `
		with ended as (`+remove+` returning tenant, kind),
			gone as (select tenant, kind, count(*) as n from ended group by tenant, kind),
			mine as (
				select quotas.tenant, quotas.kind, gone.n from quotas join gone on quotas.tenant = gone.tenant and quotas.kind = gone.kind
				order by quotas.tenant, quotas.kind for update of quotas
			),
			counted as (
				update quotas set used = quotas.used - mine.n from mine
				where quotas.tenant = mine.tenant and quotas.kind = mine.kind
			)
		select count(*) from ended`, args...)
}

func freeSQLite(ctx context.Context, db *DB, remove string, args ...any) (n int64, err error) {
	err = db.inTx(ctx, func(tx *txn) error {
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
