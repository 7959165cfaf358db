// Bench compares Berth with peers and prints one line per figure: its name, Berth's value, the peer's value, their
// ratio, the number of samples and the machine's load. Measurements of both alternate in the same run and are compared
// by their medians, because machines are noisy. A missing peer is an error. A missed goal is only reported.
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

// sizes sets the sizes of the benchmarks.
type sizes struct {
	rows    int           // number of rows in the large table
	listed  int           // number of rows behind each list
	samples int           // number of samples of each kind of query
	flatOut time.Duration // duration of a measurement of throughput

	crowd  int           // number of sandboxes of a server with many
	minute time.Duration // duration of a measurement of a server's CPU time

	rounds int // number of rounds of slow operations, such as those of Docker
	quick  int // number of rounds of fast operations
	idle   int // number of idle sandboxes at once

	files int    // number of small files in a tree
	grow  int    // number of small files in a large tree
	big   int64  // total bytes of a tree with large files
	turns int    // number of rounds of saving and restoring trees
	shm   string // path of a tmpfs
	talk  talkSizes

	windows  int           // number of windows with each attack; as many run without it; also of each way to a preview
	loud     time.Duration // duration of a window
	attack   string        // the only attack to run; empty: all
	attacker string        // path of the program that attacks

	berth  string // path of a Berth program for servers and for helpers of sandboxes; empty: no servers, and this program's helper
	before string // path of an earlier program to compare with; empty: none
}

// group is a set of figures that need the same setup.
type group struct {
	name    string
	measure func(ctx context.Context, size sizes, print func(figure) error) error
}

var groups = []group{{"store", storeFigures}, {"engine", engineFigures}, {"sandboxes", sandboxFigures}, {"workspaces", workspaceFigures}, {"turns", turnFigures}, {"agents", agentFigures}, {"neighbours", neighbourFigures}, {"previews", previewFigures}, {"releases", releaseFigures}}

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
	flag.IntVar(&size.talk.real, "real", 15, "turns of each real agent")
	flag.StringVar(&size.shm, "shm", "/dev/shm", "a `tmpfs` for trees and the store's data")
	flag.StringVar(&size.berth, "berth", "", "the `program` to serve with, and that sandboxes get their helper from")
	flag.IntVar(&size.windows, "windows", 6, "windows with each attack on a neighbour, and as many without")
	flag.DurationVar(&size.loud, "loud", 5*time.Second, "how long each window lasts")
	flag.StringVar(&size.attack, "attack", "", "the only attack on a neighbour: bomb, storm, spin or flood")
	flag.StringVar(&size.attacker, "attacker", "", "the `program` to attack neighbours with")
	flag.StringVar(&size.before, "before", "", "an earlier `program` to compare -berth with, in the group releases")
	only := flag.String("only", "", "one `group` of figures: store, engine, sandboxes, workspaces, turns, agents, neighbours, previews or releases")
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

// measure measures the groups and prints their figures.
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
