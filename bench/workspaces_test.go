//go:build docker

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/testkit"
)

// Everything is saved and restored beside its peers, which only make bench installs; nothing is left. The
// sizes say nothing about speed.
func TestEveryFigureOfWorkspacesHasAPeer(t *testing.T) {
	before, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	small := sizes{files: 120, grow: 300, big: 8 << 20, turns: 1, shm: "/dev/shm", berth: testkit.Binary(t)}
	if err := measure(t.Context(), small, groups[3:], &out); err != nil {
		t.Fatal(err)
	}
	if n, want := strings.Count(out.String(), "\n"), 1+6+3+2+1; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	after, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range after {
		if strings.HasPrefix(entry.Name(), "berth-bench-") && !contains(before, entry.Name()) {
			t.Errorf("left in /dev/shm: %s", entry.Name())
		}
	}
}

func contains(entries []os.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}
