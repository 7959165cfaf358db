// Bench measures Berth against a peer in the same run, and prints one line per figure: its name, ours,
// the peer's, their ratio, the number of samples and the machine's load. The two are interleaved and
// compared by their medians, because machines are noisy. A figure whose peer is missing is a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

// figure is one line of the output.
type figure struct {
	name       string
	ours, peer float64
	unit       string
	n          int
	note       string
}

// places is where the benchmarks keep their databases.
type places struct {
	dir    string                   // of SQLite's
	url    func(name string) string // of PostgreSQL's
	exec   func(ctx context.Context, statement string) error
	rows   int // of the large table
	listed int // rows behind each list

	samples int           // of each kind
	flatOut time.Duration // how long callers ask as fast as they can
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	want := places{samples: 4_000, flatOut: 3 * time.Second}
	flag.IntVar(&want.rows, "rows", 1_000_000, "sandboxes in the large table")
	flag.IntVar(&want.listed, "listed", 100_000, "rows behind each list")
	flag.Parse()
	return measure(ctx, want, os.Stdout)
}

// measure prepares databases of the sizes wanted and prints every figure.
func measure(ctx context.Context, want places, out io.Writer) (err error) {
	p, done, err := prepare(ctx, want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	fmt.Fprintf(out, "%-60s %12s %12s %7s %7s  %s\n", "name", "ours", "peer", "ratio", "n", "load")
	for _, bench := range []func(context.Context, places) ([]figure, error){resolve, lists} {
		figures, err := bench(ctx, p)
		if err != nil {
			return err
		}
		for _, f := range figures {
			if f.peer <= 0 || f.ours <= 0 {
				return fmt.Errorf("%s: nothing to compare with", f.name)
			}
			fmt.Fprintln(out, f)
		}
	}
	return nil
}

func (f figure) String() string {
	return fmt.Sprintf("%-60s %12s %12s %7.2f %7d  %s  %s", f.name, amount(f.ours, f.unit), amount(f.peer, f.unit), f.ours/f.peer, f.n, load(), f.note)
}

func amount(v float64, unit string) string {
	if unit == "s" {
		return time.Duration(v * float64(time.Second)).Round(100 * time.Nanosecond).String()
	}
	return fmt.Sprintf("%.0f%s", v, unit)
}

// load is the machine's load over the last minute.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(raw))[0]
}
