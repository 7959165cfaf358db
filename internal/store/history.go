package store

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
)

// History returns up to limit entries of a sandbox's history, newest first, beginning below the
// entry numbered before; 0 begins at the newest. Next is where to go on, 0 at the end. Tombstones
// keep their history.
func (s Scope) History(ctx context.Context, id string, limit int, before int64) (items []sandbox.Transition, next int64, err error) {
	if _, err := s.Record(ctx, id); err != nil {
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
