package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
		times, err := interleave(ctx, both, p.samples)
		if err != nil {
			return nil, err
		}
		rate, err := flatRates(ctx, both, p.flatOut)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("resolve %s, %d rows to %d:", engine, p.rows, smallRows)
		figures = append(figures,
			figure{name + " p50", quantile(times[1], .5), quantile(times[0], .5), "s", p.samples, "at most 1.5 is the goal"},
			figure{name + " p99", quantile(times[1], .99), quantile(times[0], .99), "s", p.samples, ""},
			figure{name + " 8 at once", rate[1], rate[0], "/s", 8, "more is better"})
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

// interleave times each in turn, after a warm-up that reads the indexes' upper levels in.
func interleave(ctx context.Context, both []lookup, samples int) ([2][]float64, error) {
	var times [2][]float64
	for n := -samples / 4; n < samples; n++ {
		for i, l := range both {
			began := time.Now()
			if err := l.one(ctx); err != nil {
				return times, err
			}
			if n >= 0 {
				times[i] = append(times[i], time.Since(began).Seconds())
			}
		}
	}
	return times, nil
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

// quantile sorts the samples in place.
func quantile(samples []float64, q float64) float64 {
	slices.Sort(samples)
	return samples[int(q*float64(len(samples)-1))]
}
