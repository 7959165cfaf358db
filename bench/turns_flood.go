package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// floods measures the events per second that pass through the log to readers when agents write as fast as they can. The
// peer is the same agents' output, read directly from their pipes.
func floods(ctx context.Context, stages []*stage, print func(figure) error) error {
	size := stages[0].talk
	size.floods = min(size.floods, size.streams)
	rates := make([][]float64, len(stages)+1)
	for round := range size.rounds {
		for i := range rates {
			who := (i + round) % len(rates)
			listen := stages[0].pipe
			if who < len(stages) {
				listen = stages[who].stream
			}
			rate, err := flood(ctx, size, listen)
			if err != nil {
				return err
			}
			rates[who] = append(rates[who], rate)
		}
	}
	peer := quantile(rates[len(stages)], .5)
	for i, s := range stages {
		err := print(figure{name: fmt.Sprintf("events/s through the log, %d turns flat out, %s, to the pipe", size.floods, s.engine),
			ours: quantile(rates[i], .5), peer: peer, unit: "/s", n: size.rounds, note: "more is better"})
		if err != nil {
			return err
		}
	}
	return nil
}

// flood returns the events per second of size.floods agents that write as fast as they can.
func flood(ctx context.Context, size talkSizes, listen func(ctx context.Context, i int, s story, each func([]byte)) error) (float64, error) {
	s := story{Lines: size.flood, Until: time.Now().Add(time.Hour).UnixNano()}
	heard, failed := make([]int, size.floods), make([]error, size.floods)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range size.floods {
		wg.Go(func() {
			failed[i] = listen(ctx, i, s, func(line []byte) {
				if _, ok := writtenAt(line); ok {
					heard[i]++
				}
			})
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, n := range heard {
		if n != size.flood {
			failed = append(failed, fmt.Errorf("%d of %d events were heard", n, size.flood))
		}
	}
	return float64(size.flood*size.floods) / took.Seconds(), cmp.Or(failed...)
}
