package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// figure is one line of the output.
type figure struct {
	name       string
	ours, peer float64
	unit       string // s, MiB or /s
	n          int
	goals      []goal
	note       string
	rss        int64 // maximum memory of Berth's program, in bytes; zero: not measured
}

func (f figure) String() string {
	words := []string{f.note}
	for _, g := range f.goals {
		words = append(words, g.judge(f))
	}
	return fmt.Sprintf("%-60s %12s %12s %8s %6d %6s  %s", f.name, amount(f.ours, f.unit), amount(f.peer, f.unit),
		share(f.ours/f.peer), f.n, load(), strings.TrimPrefix(strings.Join(words, "; "), "; "))
}

// goal is an upper bound on a figure. One of its fields is set.
type goal struct {
	ratio float64 // maximum of ours divided by the peer's value
	ours  float64 // maximum of ours
}

// judge describes the goal and whether the figure meets it.
func (g goal) judge(f figure) string {
	bound, met := share(g.ratio), f.ours <= g.ratio*f.peer
	if g.ratio == 0 {
		bound, met = amount(g.ours, f.unit), f.ours <= g.ours
	}
	if met {
		return "goal ≤ " + bound + " met"
	}
	return "goal ≤ " + bound + " MISSED"
}

// share formats a ratio: 1.52, or 1/43 for a small one.
func share(ratio float64) string {
	switch {
	case ratio <= 0 || ratio >= 0.2:
		return fmt.Sprintf("%.2f", ratio)
	case ratio*100 > 5:
		return fmt.Sprintf("1/%.3g", 1/ratio)
	}
	return fmt.Sprintf("1/%.0f", 1/ratio)
}

func amount(v float64, unit string) string {
	switch unit {
	case "s":
		return time.Duration(v * float64(time.Second)).Round(100 * time.Nanosecond).String()
	case "MiB":
		return fmt.Sprintf("%.2fMiB", v)
	}
	return fmt.Sprintf("%.0f%s", v, unit)
}

// load returns the machine's load average over the last minute.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(raw))[0]
}
