//go:build docker

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program, built as make bench builds it, makes sandboxes beside a Docker, uses and deletes them; it
// fails when anything of them is left. The sizes say nothing about speed.
func TestEveryFigureOfSandboxesHasAPeer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bench")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	temp := t.TempDir()
	run := exec.CommandContext(t.Context(), program, "-only", "sandboxes", "-rounds", "2", "-quick", "3", "-idle", "4")
	run.Env = append(os.Environ(), "TMPDIR="+temp)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n, want := strings.Count(string(out), "\n"), 1+2+6+2; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
