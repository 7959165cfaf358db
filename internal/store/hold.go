package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Hold keeps idle timers from stopping a sandbox until the given time: for a running turn, an attached terminal,
// preview traffic. Kind and ref name the hold, so that it can be extended and dropped. It counts as a use, so that
// decisions of timers from before it are not carried out.
func (db *DB) Hold(ctx context.Context, id, kind, ref string, until time.Time) error {
	const op = "hold sandbox"
	err := db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update sandboxes set active_at = {now} where id = $1 and deleted_at is null`, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return sql.ErrNoRows
		}
		_, err = tx.exec(ctx, `
			insert into holds (sandbox, kind, ref, until) values ($1, $2, $3, $4)
			on conflict (sandbox, kind, ref) do update set until = excluded.until`, id, kind, ref, at(until))
		return err
	})
	if !errors.Is(err, sql.ErrNoRows) {
		return db.fail(op, err)
	}
	if _, err := db.Sandbox(ctx, id); err != nil {
		return err
	}
	return deleted(op, "sandbox", id)
}

// DropHold ends a hold, records a use and makes the sandbox due, so that its timers are planned again. Dropping a
// hold that does not exist is not an error. Like Hold it locks the sandbox's row first, so that the two cannot
// deadlock.
func (db *DB) DropHold(ctx context.Context, id, kind, ref string) error {
	return db.fail("drop hold", db.inTx(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, `
			update sandboxes set active_at = {now}, due_at = {now} where id = $1 and deleted_at is null
				and exists (select 1 from holds where sandbox = $1 and kind = $2 and ref = $3)`, id, kind, ref)
		if err != nil {
			return err
		}
		_, err = tx.exec(ctx, `delete from holds where sandbox = $1 and kind = $2 and ref = $3`, id, kind, ref)
		return err
	}))
}

// DropHolds ends all holds of a sandbox.
func (db *DB) DropHolds(ctx context.Context, id string) error {
	_, err := db.write.exec(ctx, `delete from holds where sandbox = $1`, id)
	return db.fail("drop holds", err)
}

// Held is one hold of a sandbox.
type Held struct {
	Kind  string
	Until time.Time
}

// Holds lists the holds of a sandbox that have not expired, the longest first.
func (db *DB) Holds(ctx context.Context, id string) ([]Held, error) {
	held, err := all(ctx, db.read, func(row scanner) (h Held, err error) {
		err = row.Scan(&h.Kind, instant{&h.Until})
		return h, err
	}, `select kind, until from holds where sandbox = $1 and until > {now} order by until desc limit $2`, id, MaxLimit)
	return held, db.fail("read holds", err)
}

// HeldUntil returns when the longest hold of a sandbox ends, zero if it has none.
func (db *DB) HeldUntil(ctx context.Context, id string) (until time.Time, err error) {
	_, err = first(ctx, db.read, func(row scanner) (any, error) { return nil, row.Scan(instant{&until}) },
		`select max(until) from holds where sandbox = $1`, id)
	return until, db.fail("read holds", err)
}

// ExpireHolds removes up to limit holds that have ended, and returns how many.
func (db *DB) ExpireHolds(ctx context.Context, limit int) (int64, error) {
	n, err := db.write.exec(ctx, `
		delete from holds where (sandbox, kind, ref) in
			(select sandbox, kind, ref from holds where until <= {now} order by until limit $1 {skip locked})`, clampLimit(limit))
	return n, db.recordScan("expire holds", err)
}
