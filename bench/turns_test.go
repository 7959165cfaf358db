package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestATellerSaysWhenItSpoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "teller")
	if err := writeTeller(path); err != nil {
		t.Fatal(err)
	}
	tell := func(prompt string) (string, error) {
		cmd := exec.CommandContext(t.Context(), path)
		cmd.Stdin = strings.NewReader(prompt)
		out, err := cmd.Output()
		return string(out), err
	}
	before := time.Now()
	out, err := tell(story{Every: time.Millisecond, Lines: 3, Until: before.Add(time.Hour).UnixNano()}.String())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for line := range bytes.Lines([]byte(out)) {
		if at, ok := writtenAt(line); ok {
			n++
			if at.Before(before) || at.After(time.Now()) {
				t.Errorf("it says %s", at)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d lines say when they were written:\n%s", n, out)
	}
	if out, err := tell("?"); err == nil {
		t.Errorf("a story that is none was told: %s", out)
	}
}
