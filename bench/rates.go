package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// flatRates returns the throughput of two operations, in calls per second, measured in alternating slices of time.
func flatRates(ctx context.Context, flatOut time.Duration, ours, peer func(context.Context) error) (rates [2]float64, err error) {
	const slicesEach = 3
	for range slicesEach {
		for i, do := range []func(context.Context) error{ours, peer} {
			n, err := flat(ctx, callers, do, flatOut/slicesEach)
			if err != nil {
				return rates, err
			}
			rates[i] += float64(n) / flatOut.Seconds()
		}
	}
	return rates, nil
}

// flat returns the number of calls of do that n concurrent callers finish in a time.
func flat(ctx context.Context, n int, do func(context.Context) error, d time.Duration) (int64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range n {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := do(ctx); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return done.Load(), nil
}
