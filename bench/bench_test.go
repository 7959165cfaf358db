package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Every figure is there, with a peer, at sizes that say nothing about speed.
func TestEveryFigureHasAPeer(t *testing.T) {
	var out bytes.Buffer
	if err := measure(t.Context(), places{rows: 2_000, listed: 1_100, samples: 20, flatOut: 30 * time.Millisecond}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := 1 + 2*(3+len(allLists)+1); len(lines) != want {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, out.String())
	}
}
