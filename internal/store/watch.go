package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Backlog describes the undelivered messages of one kind.
type Backlog struct {
	Kind     string
	Messages int64
	Oldest   time.Time // creation time of the oldest
}

// Overview counts and lists over all tenants, for metrics and for checks at the start.
type Overview struct{ db *DB }

// Overview returns counts and lists over all tenants.
func (db *DB) Overview() Overview { return Overview{db} }

// Backlogs returns the undelivered messages of the outbox by kind. Kinds without any are left out.
func (o Overview) Backlogs(ctx context.Context) ([]Backlog, error) {
	list, err := all(ctx, o.db.read, func(row scanner) (b Backlog, err error) {
		err = row.Scan(&b.Kind, &b.Messages, instant{&b.Oldest})
		return b, err
	}, `select kind, count(*), min(created_at) from outbox group by kind`)
	return list, o.db.fail("count the outbox", err)
}

// States returns the number of sandboxes of all tenants in each state, without deleted ones.
func (o Overview) States(ctx context.Context) (map[sandbox.State]int64, error) {
	states := map[sandbox.State]int64{}
	for _, s := range sandbox.States {
		states[s] = 0
	}
	type counted struct {
		state sandbox.State
		n     int64
	}
	list, err := all(ctx, o.db.read, func(row scanner) (c counted, err error) {
		err = row.Scan(&c.state, &c.n)
		return c, err
	}, `select state, count(*) from sandboxes where deleted_at is null group by state`)
	for _, c := range list {
		states[c.state] = c.n
	}
	return states, o.db.fail("count sandboxes", err)
}
