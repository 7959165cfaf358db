package main

import (
	"context"
	"slices"
	"time"
)

// contender does a thing once and says how long the part took that counts.
type contender func(ctx context.Context) (time.Duration, error)

// timed is a contender of which everything counts.
func timed(do func(ctx context.Context) error) contender {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began), err
	}
}

// interleave lets two contenders take turns, each going first every other round, so that what the
// machine does meanwhile, and what one leaves behind for the other, meets both alike. The first rounds
// only warm up.
func interleave(ctx context.Context, n int, ours, peer contender) (times [2][]float64, err error) {
	both := [2]contender{ours, peer}
	for round := -n/4 - 1; round < n; round++ {
		for turn := range both {
			who := (turn + round&1) % 2
			took, err := both[who](ctx)
			if err != nil {
				return times, err
			}
			if round >= 0 {
				times[who] = append(times[who], took.Seconds())
			}
		}
	}
	return times, nil
}

// compare is the figure of two contenders' medians.
func compare(ctx context.Context, name string, n int, ours, peer contender, goals ...goal) (figure, error) {
	times, err := interleave(ctx, n, ours, peer)
	if err != nil {
		return figure{}, err
	}
	return figure{name: name, ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: n, goals: goals}, nil
}

// quantile sorts the samples in place.
func quantile(samples []float64, q float64) float64 {
	slices.Sort(samples)
	return samples[int(q*float64(len(samples)-1))]
}
