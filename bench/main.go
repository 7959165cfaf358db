// Bench measures Berth against a peer in the same run, and prints one line per figure: its name, ours,
// the peer's, their ratio, the number of samples and the machine's load. The two are interleaved and
// compared by their medians, because machines are noisy. A figure whose peer is missing is a failure; a
// goal that is missed is only said.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sizes is how much is measured.
type sizes struct {
	rows    int           // of the large table
	listed  int           // rows behind each list
	samples int           // lookups of each kind
	flatOut time.Duration // how long callers ask as fast as they can

	crowd  int           // sandboxes of a server that has many
	minute time.Duration // how long a server's use of the CPU is measured

	rounds int // of what takes Docker long
	quick  int // rounds of what takes nobody long
	idle   int // sandboxes that do nothing, all at once

	files int    // small ones of a tree that is saved
	grow  int    // of a tree that has many
	big   int64  // bytes of a tree of large ones
	turns int    // rounds of what saves and restores trees
	shm   string // a tmpfs
	talk  talkSizes

	berth string // the program to serve with, and that sandboxes get their helper from; empty: none, and this one
}

// group is figures that need the same things around them.
type group struct {
	name    string
	measure func(ctx context.Context, size sizes, print func(figure) error) error
}

var groups = []group{{"store", storeFigures}, {"engine", engineFigures}, {"sandboxes", sandboxFigures}, {"workspaces", workspaceFigures}, {"turns", turnFigures}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	size := sizes{samples: 4_000, flatOut: 3 * time.Second, minute: time.Minute}
	flag.IntVar(&size.rows, "rows", 1_000_000, "sandboxes in the large table")
	flag.IntVar(&size.listed, "listed", 100_000, "rows behind each list")
	flag.IntVar(&size.crowd, "crowd", 10_000, "sandboxes of a server that has many")
	flag.IntVar(&size.rounds, "rounds", 50, "rounds against Docker")
	flag.IntVar(&size.quick, "quick", 400, "rounds against the host")
	flag.IntVar(&size.idle, "idle", 200, "idle sandboxes at once")
	flag.IntVar(&size.files, "files", 10_000, "small files of a tree that is saved")
	flag.IntVar(&size.grow, "grown", 200_000, "small files of a tree that has many")
	big := flag.Int64("big", 1024, "`MiB` of a tree of large files")
	flag.IntVar(&size.turns, "turns", 5, "rounds of saving and restoring trees")
	flag.StringVar(&size.shm, "shm", "/dev/shm", "a `tmpfs` for trees and the store's data")
	flag.StringVar(&size.berth, "berth", "", "the `program` to serve with, and that sandboxes get their helper from")
	only := flag.String("only", "", "one `group` of figures: store, engine, sandboxes, workspaces or turns")
	flag.Parse()
	size.big = *big << 20
	if size.berth != "" {
		whole, err := filepath.Abs(size.berth)
		if err != nil {
			return err
		}
		size.berth = whole
	}
	chosen := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return *only != "" && g.name != *only })
	if len(chosen) == 0 {
		return fmt.Errorf("there is no group %q", *only)
	}
	return measure(ctx, size, chosen, os.Stdout)
}

// measure prints every figure of the groups.
func measure(ctx context.Context, size sizes, groups []group, out io.Writer) error {
	fmt.Fprintf(out, "%-60s %12s %12s %8s %6s %6s\n", "name", "ours", "peer", "ratio", "n", "load")
	for _, g := range groups {
		err := g.measure(ctx, size, func(f figure) error {
			if f.peer <= 0 || f.ours <= 0 {
				return fmt.Errorf("%s: nothing to compare with", f.name)
			}
			_, err := fmt.Fprintln(out, strings.TrimRight(f.String(), " "))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
