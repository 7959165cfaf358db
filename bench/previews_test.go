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

// A real server, a bare proxy and nginx; nothing of them is left.
func TestEveryFigureOfPreviewsHasAPeer(t *testing.T) {
	var out bytes.Buffer
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	small := sizes{windows: 1, loud: 200 * time.Millisecond, berth: testkit.Binary(t)}
	if err := measure(t.Context(), small, []group{{"previews", previewFigures}}, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if n, want := strings.Count(out.String(), "\n"), 1+4; n != want {
		t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
