package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
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

// Servers of their own, with a crowd that is looked after; nothing of them is left.
func TestEveryFigureOfTheEngineHasAPeer(t *testing.T) {
	var out bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	small := sizes{crowd: 40, samples: 20, flatOut: 30 * time.Millisecond, minute: time.Second, berth: testkit.Binary(t)}
	if err := measure(t.Context(), small, groups[1:2], &out); err != nil {
		t.Fatal(err)
	}
	if n, want := strings.Count(out.String(), "\n"), 1+2*(2*4+3); n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestAServerThatDoesNotComeUpSaysWhy(t *testing.T) {
	if _, err := serve(t.Context(), "", t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "-berth") {
		t.Errorf("without a program: %v", err)
	}
	if _, err := serve(t.Context(), testkit.Binary(t), t.TempDir(), "postgres://nobody@127.0.0.1:1/none"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without a database: %v", err)
	}
}

func TestTimeOfAProcessIsReadFromProc(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"4711 (berth) S 1 1 1 0 -1 4194560 100 0 0 0 150 50 9 9 20 0": 2 * time.Second,
		"4711 (a) b) (c) S 1 1 1 0 -1 4194560 100 0 0 0 3 4 9 9 20 0": 70 * time.Millisecond,
	} {
		if got, err := cpuOf(stat); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", stat, got, err, want)
		}
	}
	for _, stat := range []string{"", "4711 (berth) S 1", "4711 (berth) S 1 1 1 0 -1 4194560 100 0 0 0 x 50"} {
		if got, err := cpuOf(stat); err == nil {
			t.Errorf("%q: %v", stat, got)
		}
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
