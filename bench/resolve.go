package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const smallRows = 1_000

// resolve finds an owner's sandbox: what every request for a running one asks of the
// database. The peer is the same with a thousand rows: the table's size must not matter.
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
		rate, err := flatRates(ctx, both, p.flatOut)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("resolve %s, %d rows to %d:", engine, p.rows, smallRows)
		figures = append(figures,
			figure{name: name + " p50", ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: p.samples, goals: []goal{{ratio: 1.5}}},
			figure{name: name + " p99", ours: quantile(times[0], .99), peer: quantile(times[1], .99), unit: "s", n: p.samples},
			figure{name: name + " 8 at once", ours: rate[1], peer: rate[0], unit: "/s", n: 8, note: "more is better"})
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

// flatRates is how many a second eight callers get, in alternating slices of time.
func flatRates(ctx context.Context, both []lookup, flatOut time.Duration) (rates [2]float64, err error) {
	const slicesEach = 3
	for range slicesEach {
		for i, l := range both {
			n, err := flat(ctx, l, flatOut/slicesEach)
			if err != nil {
				return rates, err
			}
			rates[i] += float64(n) / flatOut.Seconds()
		}
	}
	return rates, nil
}

func flat(ctx context.Context, l lookup, d time.Duration) (int64, error) {
	var n atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := l.one(ctx); err != nil {
					failed.Store(&err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return n.Load(), nil
}
