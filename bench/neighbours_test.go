package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/testkit"
)

// A server of its own with two sandboxes, one of which attacks; nothing of them is left.
func TestEveryFigureOfNeighboursHasAPeer(t *testing.T) {
	attacker := filepath.Join(t.TempDir(), "attacker")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", attacker, "../internal/testkit/attack/cmd/attacker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	small := sizes{windows: 1, loud: 200 * time.Millisecond, attack: "spin", attacker: attacker, berth: testkit.Binary(t)}
	if err := measure(t.Context(), small, []group{{"neighbours", neighbourFigures}}, &out); err != nil {
		t.Fatal(err)
	}
	if n, want := strings.Count(out.String(), "\n"), 1+2; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
