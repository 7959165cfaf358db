package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

// TestTerminalGetsShortLines: one line per record, without ids and counters, and nothing that a terminal obeys.
func TestTerminalGetsShortLines(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	m := ptytest.New(t)
	secrets := new(telemetry.Redactor)
	secrets.Add("hunter2-hunter2")
	log := telemetry.NewLogger(m.TTY, "auto", slog.LevelInfo, secrets)
	log.Info("request", "method", "GET", "path", "/api/v1/sandboxes", "route", "/api/v1/sandboxes", "status", 200, "took_ms", 1.5, "request_id", "r1", "tenant", "default")
	log.With("sandbox_id", "0197").Info("sandbox stopped", "from", "stopping", "to", "stopped", "reason", "idle", "generation", 3)
	log.Warn("save failed", "error", "hunter2-hunter2 \x1b[2J", "attempt", 2, "tenant", "default")
	log.Debug("not shown")
	m.Wait("attempt=2\n")
	var got []string
	for line := range strings.Lines(m.Text()) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ") // the time
		got = append(got, rest)
	}
	want := []string{
		"request GET /api/v1/sandboxes 200 1.5ms",
		"sandbox stopped stopping → stopped (idle)",
		`WARN save failed ` + telemetry.Redacted + ` \x1b[2J attempt=2`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAutoIsJSONWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	telemetry.NewLogger(&out, "auto", slog.LevelInfo, nil).Info("hello", "a", 1)
	if !strings.HasPrefix(out.String(), `{"time":`) || !strings.Contains(out.String(), `"msg":"hello","a":1}`) {
		t.Error(out.String())
	}
}
