package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// HoldTable marks sandboxes as used, so that no timer stops them.
type HoldTable struct{ db *DB }

// List returns the holds of sandboxes.
func (db *DB) Holds() HoldTable { return HoldTable{db} }

// Hold keeps idle timers from stopping a sandbox until the given time: for a running turn, an attached terminal,
// preview traffic. Kind and ref name the hold, so that it can be extended and dropped. It counts as a use, so that
// decisions of timers from before it are not carried out.
func (holds HoldTable) Hold(ctx context.Context, id, kind, ref string, until time.Time) error {
	const op = "hold sandbox"
	err := holds.db.inTx(ctx, func(tx *txn) error {
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
		return holds.db.fail(op, err)
	}
	if _, err := holds.db.Sandbox(ctx, id); err != nil {
		return err
	}
	return deleted(op, "sandbox", id)
}

// DropHold ends a hold, records a use and makes the sandbox due, so that its timers are planned again. Dropping a
// hold that does not exist is not an error. Like Hold it locks the sandbox's row first, so that the two cannot
// deadlock.
func (holds HoldTable) DropHold(ctx context.Context, id, kind, ref string) error {
	return holds.db.fail("drop hold", holds.db.inTx(ctx, func(tx *txn) error {
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

// DropAll ends all holds of a sandbox.
func (holds HoldTable) DropAll(ctx context.Context, id string) error {
	_, err := holds.db.write.exec(ctx, `delete from holds where sandbox = $1`, id)
	return holds.db.fail("drop holds", err)
}

// Held is one hold of a sandbox.
type Held struct {
	Kind  string
	Until time.Time
}

// List lists the holds of a sandbox that have not expired, the longest first.
func (holds HoldTable) List(ctx context.Context, id string) ([]Held, error) {
	held, err := all(ctx, holds.db.read, func(row scanner) (h Held, err error) {
		err = row.Scan(&h.Kind, instant{&h.Until})
		return h, err
	}, `select kind, until from holds where sandbox = $1 and until > {now} order by until desc limit $2`, id, MaxLimit)
	return held, holds.db.fail("read holds", err)
}

// HeldUntil returns when the longest hold of a sandbox ends, zero if it has none.
func (holds HoldTable) HeldUntil(ctx context.Context, id string) (until time.Time, err error) {
	_, err = first(ctx, holds.db.read, func(row scanner) (any, error) { return nil, row.Scan(instant{&until}) },
		`select max(until) from holds where sandbox = $1`, id)
	return until, holds.db.fail("read holds", err)
}

// ExpireHolds removes up to limit holds that have ended, and returns how many.
func (holds HoldTable) ExpireHolds(ctx context.Context, limit int) (int64, error) {
	n, err := holds.db.write.exec(ctx, `
		delete from holds where (sandbox, kind, ref) in
			(select sandbox, kind, ref from holds where until <= {now} order by until limit $1 {skip locked})`, clampLimit(limit))
	return n, holds.db.recordScan("expire holds", err)
}
