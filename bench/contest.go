package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// spent is the cost of one run of a program.
type spent struct {
	wall, cpu time.Duration
	rss       int64 // maximum memory, in bytes
}

// entrant is one of several programs that do the same task. Only run is measured, not prepare and after, which may be
// nil.
type entrant struct {
	name    string
	prepare func(ctx context.Context) error
	run     func(ctx context.Context) (spent, error)
	after   func(ctx context.Context) error
}

func (e entrant) do(ctx context.Context) (s spent, err error) {
	if e.prepare != nil {
		if err := e.prepare(ctx); err != nil {
			return s, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if s, err = e.run(ctx); err == nil && e.after != nil {
		err = e.after(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", e.name, err)
	}
	return s, err
}

// contest runs the entrants in turn and compares the first entrant with the best of the others. Each round starts with
// another entrant. The first round is a warm-up and does not count.
func contest(ctx context.Context, name string, n int, entrants []entrant) (figure, error) {
	wall, cpu := make([][]float64, len(entrants)), make([][]float64, len(entrants))
	f := figure{name: name, unit: "s", n: n}
	for round := -1; round < n; round++ {
		for turn := range entrants {
			who := (turn + round + 1) % len(entrants)
			took, err := entrants[who].do(ctx)
			if err != nil {
				return f, err
			}
			if round < 0 {
				continue
			}
			wall[who], cpu[who] = append(wall[who], took.wall.Seconds()), append(cpu[who], took.cpu.Seconds())
			if who == 0 {
				f.rss = max(f.rss, took.rss)
			}
		}
	}
	f.ours = quantile(wall[0], .5)
	best := 1
	var others []string
	for i := 1; i < len(entrants); i++ {
		if quantile(wall[i], .5) < quantile(wall[best], .5) {
			best = i
		}
	}
	for i := 1; i < len(entrants); i++ {
		if i != best {
			others = append(others, fmt.Sprintf("%s %s", entrants[i].name, formatSeconds(quantile(wall[i], .5))))
		}
	}
	f.peer = quantile(wall[best], .5)
	f.note = fmt.Sprintf("peer %s, CPU time %s to %s", entrants[best].name, formatSeconds(quantile(cpu[0], .5)), formatSeconds(quantile(cpu[best], .5)))
	if len(others) > 0 {
		f.note += "; " + strings.Join(others, ", ")
	}
	return f, nil
}

func formatSeconds(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

// least sets the figure's peer to the named one if its value is the lowest so far.
func (f *figure) least(name string, v float64) {
	if f.peer == 0 || v < f.peer {
		f.peer, f.note = v, "peer "+name
	}
}
