package main

import (
	"context"
	"slices"
	"time"
)

// contender runs an operation once and returns the duration of its measured part.
type contender func(ctx context.Context) (time.Duration, error)

// timed returns a contender that measures the whole of do.
func timed(do func(ctx context.Context) error) contender {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began), err
	}
}

// interleave runs two contenders in turn and returns their times in seconds. They take turns in going first, so that
// other work of the machine and after-effects of each other affect both equally. The first rounds are a warm-up.
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

// compare returns a figure with the medians of two contenders.
func compare(ctx context.Context, name string, n int, ours, peer contender, goals ...goal) (figure, error) {
	times, err := interleave(ctx, n, ours, peer)
	if err != nil {
		return figure{}, err
	}
	return figure{name: name, ours: quantile(times[0], .5), peer: quantile(times[1], .5), unit: "s", n: n, goals: goals}, nil
}

// quantile returns the q-quantile of the samples. It sorts them in place.
func quantile(samples []float64, q float64) float64 {
	slices.Sort(samples)
	return samples[int(q*float64(len(samples)-1))]
}
