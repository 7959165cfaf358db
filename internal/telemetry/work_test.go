package telemetry_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/berthdev/berth/internal/testkit"
)

// shows looks for lines in the metrics.
func shows(t *testing.T, m *telemetry.Metrics, lines ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	return text
}

func TestTurnsAndSyncsAreCounted(t *testing.T) {
	testkit.Proves(t, "T9")
	m := telemetry.NewMetrics("test")
	m.TurnStarted()
	done := m.TurnRuns()
	shows(t, m, "berth_turns_running 1", "berth_turns_started_total 1", `berth_turns_finished_total{status="failed"} 0`)
	done()
	m.ObserveTurn(telemetry.Turn{Status: "completed", Took: 2 * time.Second, Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostUSD: 0.5})
	m.ObserveTurn(telemetry.Turn{Status: "failed", Input: -5, CostUSD: -1}) // a bad number never makes a counter panic
	m.ObserveSync("push", time.Second, 100, nil)
	m.ObserveSync("push", time.Second, 0, errors.New("no"))
	shows(t, m, "berth_turns_running 0", `berth_turns_finished_total{status="completed"} 1`, `berth_turn_duration_seconds_sum{status="completed"} 2`,
		`berth_tokens_total{kind="input"} 1`, `berth_tokens_total{kind="cache_write"} 4`, "berth_cost_usd_total 0.5",
		`berth_sync_runs_total{op="push",outcome="ok"} 1`, `berth_sync_runs_total{op="push",outcome="error"} 1`, `berth_sync_bytes_total{op="push"} 100`,
		`berth_sync_duration_seconds_count{op="push"} 2`)
}

func TestNumbersOfTheDatabase(t *testing.T) {
	m := telemetry.NewMetrics("test")
	asked := 0
	m.Watch(func(context.Context) (telemetry.Snapshot, error) {
		asked++
		return telemetry.Snapshot{Sandboxes: map[string]int64{"running": 3}, Outbox: map[string]telemetry.Lag{"message": {Messages: 2, Oldest: time.Minute}}}, nil
	})
	for range 3 {
		shows(t, m, `berth_sandboxes{state="running"} 3`, `berth_outbox_messages{kind="message"} 2`, `berth_outbox_oldest_seconds{kind="message"} 60`, "berth_watch_failed 0")
	}
	if asked != 1 {
		t.Errorf("the database was asked %d times", asked)
	}
	m = telemetry.NewMetrics("test")
	m.Watch(func(context.Context) (telemetry.Snapshot, error) { return telemetry.Snapshot{}, errors.New("away") })
	if text := shows(t, m, "berth_watch_failed 1", "berth_turns_running 0"); strings.Contains(text, "berth_sandboxes{") {
		t.Error("numbers are shown that are not known")
	}
}
