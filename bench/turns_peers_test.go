//go:build docker

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// Two servers with real agents; nothing of them is left.
func TestEveryFigureOfTurnsHasAPeer(t *testing.T) {
	var out bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	small := sizes{berth: testkit.Binary(t), talk: talkSizes{streams: 3, window: time.Second, rounds: 1, idle: 20, floods: 2, flood: 200, real: 1}}
	if err := measure(t.Context(), small, []group{{"turns", turnFigures}}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n, want := strings.Count(out.String(), "\n"), 1+2*2+2+2+1; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// The same of the agents that speak ACP.
func TestEveryFigureOfAgentsHasAPeer(t *testing.T) {
	var out bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	small := sizes{berth: testkit.Binary(t), talk: talkSizes{real: 1}}
	if err := measure(t.Context(), small, []group{{"agents", agentFigures}}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n, want := strings.Count(out.String(), "\n"), 1+3*len(agentEnv); n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
