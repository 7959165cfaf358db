package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

func TestEveryFigureOfTheStoreHasAPeer(t *testing.T) {
	var out bytes.Buffer
	small := sizes{rows: 2_000, listed: 1_100, samples: 20, flatOut: 30 * time.Millisecond}
	if err := measure(t.Context(), small, groups[:1], &out); err != nil {
		t.Fatal(err)
	}
	if n, want := strings.Count(out.String(), "\n"), 1+2*(3+len(allLists)+1); n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
}

func TestAFigureSaysWhetherItMeetsItsGoals(t *testing.T) {
	for name, c := range map[string]struct {
		figure figure
		want   string
	}{
		"a share":     {figure{ours: 0.01, peer: 0.4, unit: "s", goals: []goal{{ratio: 1. / 30}}}, "10ms 400ms 1/40 0 goal ≤ 1/30 met"},
		"two goals":   {figure{ours: 0.01, peer: 0.25, unit: "s", goals: []goal{{ratio: 1. / 30}, {ratio: 1. / 20}}}, "10ms 250ms 1/25 0 goal ≤ 1/30 MISSED; goal ≤ 1/20 met"},
		"twice":       {figure{ours: 3, peer: 2, unit: "s", goals: []goal{{ratio: 2}}}, "3s 2s 1.50 0 goal ≤ 2.00 met"},
		"an amount":   {figure{ours: 1.25, peer: 4, unit: "MiB", goals: []goal{{ours: 1}}}, "1.25MiB 4.00MiB 0.31 0 goal ≤ 1.00MiB MISSED"},
		"only a note": {figure{ours: 50, peer: 500, unit: "/s", note: "more is better"}, "50/s 500/s 1/10 0 more is better"},
	} {
		words := strings.Fields(c.figure.String())
		got := strings.Join(append(words[:4:4], words[5:]...), " ") // without the load
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTwoContendersTakeTurns(t *testing.T) {
	var order strings.Builder
	say := func(word string) contender {
		return func(context.Context) (time.Duration, error) {
			order.WriteString(word)
			return time.Second, nil
		}
	}
	times, err := interleave(t.Context(), 4, say("o"), say("p"))
	if want := "oppo oppo oppo"; err != nil || order.String() != strings.ReplaceAll(want, " ", "") {
		t.Errorf("order %s, %v; want %s", order.String(), err, want)
	}
	if len(times[0]) != 4 || len(times[1]) != 4 {
		t.Errorf("%v: the first rounds only warm up", times)
	}
}
