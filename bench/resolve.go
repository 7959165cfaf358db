package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const smallRows = 1_000

// resolve measures the query for an owner's sandbox, which every request for a running sandbox makes. The peer is
// the same query in a table with a thousand rows, because the table's size must not matter.
func resolve(ctx context.Context, p places) (figures []figure, err error) {
	for _, engine := range []string{"sqlite", "postgres"} {
		small, err := p.open(ctx, engine, "small_"+engine, smallRows)
		if err != nil {
			return nil, err
		}
		large, err := p.open(ctx, engine, "large_"+engine, p.rows)
		if err != nil {
			return nil, err
		}
		both := []lookup{{small, smallRows}, {large, p.rows}}
		times, err := interleave(ctx, p.samples, timed(both[1].one), timed(both[0].one))
		if err != nil {
			return nil, err
		}
		rate, err := flatRates(ctx, p.flatOut, both[1].one, both[0].one)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("resolve %s, %d rows to %d:", engine, p.rows, smallRows)
		figures = append(figures,
			figure{name: name + " p50", ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: p.samples, goals: []goal{{ratio: 1.5}}},
			figure{name: name + " p99", ours: quantile(times[0], .99), peer: quantile(times[1], .99), unit: "s", n: p.samples},
			figure{name: name + " 8 at once", ours: rate[0], peer: rate[1], unit: "/s", n: callers, note: "more is better"})
		if err := small.Close(); err != nil {
			return nil, err
		}
		if err := large.Close(); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// lookup resolves random owners of one database.
type lookup struct {
	db   *store.DB
	rows int
}

func (l lookup) one(ctx context.Context) error {
	_, err := l.db.In(tenant).ByOwner(ctx, sandbox.OwnerProject, fmt.Sprint("owner-", 1+rand.IntN(l.rows)))
	return err
}
