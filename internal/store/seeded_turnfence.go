//go:build seeded_turnfence

package store

import "context"

// Both let a holder that lost its lease write on: a bug on purpose, which tests must find.
const (
	turnFence   = `turns.id = $1 and cast($2 as bigint) >= 0 and finished_at is null`
	appendFence = `asked.epoch >= 0`
)

// numbered puts events where there is room: the same bug.
func (db *DB) numbered(ctx context.Context, batch []TurnAppend) []TurnAppend {
	for i, a := range batch {
		batch[i].After, _ = first(ctx, db.read, scanOne[int64], `select coalesce(max(last), 0) from turn_log where turn = $1`, a.Lease.ID)
	}
	return batch
}
