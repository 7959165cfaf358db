package chat

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/remote"
	"github.com/berthdev/berth/internal/cli/ui"
	"github.com/berthdev/berth/internal/testkit/ptytest"
)

func TestUsageLineFitsTheWindow(t *testing.T) {
	m := ptytest.New(t)
	m.Resize(50, 10)
	u := ui.New(m.TTY, m.TTY, m.TTY, func(string) (string, bool) { return "", false })
	a := &app{remote.New(u, "", nil)}
	s := a.newScreenTurn()
	e := api.TurnEvent{Usage: &api.Usage{InputTokens: 9, OutputTokens: 1, Estimated: true}, Version: "20261115T031200Z-a1b2c3", CostUSD: 12.345}
	if got := s.usageLine(e, time.Minute); got != "↑ ≈ 9 in · 1 out · $12.35 · 60.0s · version …a1b2c3" {
		t.Errorf("%q", got)
	}
	if got := s.fit(strings.Repeat("漢", 40), 9); got != strings.Repeat("漢", 19)+"…" {
		t.Errorf("%q", got)
	}
	if got := ui.Thousands(-1234567); got != "-1,234,567" {
		t.Errorf("%q", got)
	}
}

// A turn without a key ends with what to type. An answer that only speaks of one does not.
func TestMissingKeyIsFollowedByWhatToType(t *testing.T) {
	var notes strings.Builder
	u := ui.New(nil, io.Discard, &notes, func(string) (string, bool) { return "", false })
	s := (&app{remote.New(u, "", nil)}).newScreenTurn()
	for _, e := range []api.TurnEvent{
		{Type: api.EventTextDelta, Text: "Not logged in · Please run /login"},
		{Type: api.EventTurnFinished, Status: api.TurnFailed, Code: api.CodeModelKeyMissing, Message: "ANTHROPIC_API_KEY is not set"},
	} {
		if err := s.event(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ANTHROPIC_API_KEY is not set", "berth secret set NAME", "--env NAME"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("no %q in:\n%s", want, notes.String())
		}
	}
}
