package app_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/testkit"
)

// scrape reads the server's metrics.
func (p *process) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	res, err := http.Get(p.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			found[name] = n
		}
	}
	return found
}

// Turns, tokens, syncs, the outbox and sandboxes are counted, and no label holds an id; the log has the events that
// alerts are built on, with the owner.
func TestMetricsAndEventsOfTurns(t *testing.T) {
	testkit.Proves(t, "T9", "X4")
	t.Parallel()
	env := withConfig(t, local(t), `
[templates.shut]
extends = "demo"
[[templates.shut.hooks]]
phase = "cold_start"
command = "exit 1"
`)
	p := start(t, env)
	c := p.client(t)
	for _, template := range []string{"demo", "shut"} {
		conv, _, err := c.Conversations.Create(t.Context(), api.CreateConversation{Template: template})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "run echo x > f"})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range turn.Events() {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Eventually(t, time.Minute, func() error {
		return counted(p.scrape(t), map[string]float64{
			"berth_turns_started_total": 2, `berth_turns_finished_total{status="completed"}`: 1, `berth_turns_finished_total{status="failed"}`: 1,
			"berth_turns_running": 0, `berth_turn_duration_seconds_count{status="completed"}`: 1, `berth_tokens_total{kind="cache_read"}`: 0, "berth_cost_usd_total": 0,
			`berth_sync_runs_total{op="push",outcome="error"}`: 0, `berth_sync_duration_seconds_count{op="push"}`: 1,
			`berth_outbox_messages{kind="message"}`: 0, `berth_outbox_oldest_seconds{kind="message"}`: 0,
			`berth_sandboxes{state="running"}`: 1, `berth_sandboxes{state="error"}`: 1, `berth_sandboxes{state="stopped"}`: 0, "berth_watch_failed": 0,
		}, `berth_tokens_total{kind="input"}`, `berth_tokens_total{kind="output"}`, `berth_sync_runs_total{op="push",outcome="ok"}`, `berth_sync_bytes_total{op="push"}`)
	})
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}`)
	for name := range p.scrape(t) {
		if !strings.HasPrefix(name, "berth_") || id.MatchString(name) {
			t.Errorf("%s is a name, or a label, that must not be", name)
		}
	}
	testkit.Eventually(t, time.Minute, func() error {
		for _, event := range []string{"sandbox.prompt.ok", "sandbox.prompt.fatal_fail", "sandbox.resolve.start"} {
			if !regexp.MustCompile(`msg=` + regexp.QuoteMeta(event) + ` .*owner_kind=conversation owner_id=`).MatchString(p.logs.String()) {
				return fmt.Errorf("no event %s with its owner in the log", event)
			}
		}
		return nil
	})
}

// counted compares metrics with what they must be; those in some must be more than 0.
func counted(found, want map[string]float64, some ...string) error {
	for name, n := range want {
		if got, ok := found[name]; !ok || got != n {
			return fmt.Errorf("%s is %v (%v), not %v", name, got, ok, n)
		}
	}
	for _, name := range some {
		if found[name] <= 0 {
			return fmt.Errorf("%s is %v", name, found[name])
		}
	}
	return nil
}
