package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// turnWindows are the points of a turn at which the server is killed, and at which time it gets there.
var turnWindows = []string{
	"accepted 1", "taken 1", "ready 1", "attempt 1", "before-start 1", "after-start 1", "appended 1", "appended 2", "appended 4",
	"ended 1", "finishing 1", "captured 1", "before-mark 1", "owed 1", "before-commit 1", "after-commit 1", "saved 1", "recorded 1", "finished 1",
}

// The server is killed in the middle of a turn, again and again. The agent's turn finishes, who comes back has
// every event exactly once, the hooks after the turn had their effect exactly once, and the tokens are right.
func TestKilledServerLosesNoTurn(t *testing.T) {
	testkit.Proves(t, "C4", "H4", "C7")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "berth.toml")
	if err := os.WriteFile(file, []byte(`[templates.hooked]
extends = "demo"
[[templates.hooked.hooks]]
phase = "stream_finish"
command = "echo $BERTH_TURN_ID >> /home/agent/finished"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(local(t), "BERTH_CONFIG="+file)
	p := start(t, env)
	conv, _, err := p.client(t).Conversations.Create(t.Context(), api.CreateConversation{Template: "hooked"})
	if err != nil {
		t.Fatal(err)
	}
	prompted(t, p.client(t), conv.ID, "hello") // to the first one it says more
	const prompt = "run echo a b c d e f g h i j k l m n o p"
	whole := readTurn(t, p.client(t), conv.ID, prompted(t, p.client(t), conv.ID, prompt), 0)
	want := lastEvent(t, whole)
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	kills, rounds := testkit.Size(t, "kill.turns"), 0
	for rounds < kills {
		for _, window := range turnWindows {
			if rounds++; rounds > kills {
				break
			}
			killInTurn(t, env, conv.ID, prompt, window, want)
		}
	}
	p = start(t, env)
	got, err := p.client(t).Conversations.Get(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	var sum api.Usage
	var messages int64
	for m, err := range p.client(t).Conversations.Messages(t.Context(), conv.ID) {
		if err != nil {
			t.Fatal(err)
		}
		messages++
		sum = sum.Add(m.Usage)
	}
	if s := got.Stats; s.MessagesExchanged != messages || s.TotalInputTokens != sum.InputTokens || s.TotalOutputTokens != sum.OutputTokens {
		t.Errorf("the stats are %+v, the messages %d with %+v", s, messages, sum)
	}
	b := box{t, p.client(t), got.SandboxID}
	ran := strings.Fields(b.sh("cat /home/agent/finished").Stdout)
	seen := map[string]int{}
	for _, id := range ran {
		seen[id]++
	}
	for turn, err := range p.client(t).Conversations.Turns(t.Context(), conv.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[turn.ID] != 1 {
			t.Errorf("the hook ran %d times after turn %s, which is %s", seen[turn.ID], turn.ID, turn.Status)
		}
		if turn.Version == "" {
			t.Errorf("no version was saved after turn %s", turn.ID)
		}
	}
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}

// killInTurn asks a server that is killed in the window, and then the next one.
func killInTurn(t *testing.T, env []string, conv, prompt, window string, want api.TurnEvent) {
	t.Helper()
	p := start(t, append(env, killEnv+"="+window))
	once := p.client(t, client.WithAttempts(1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var events []api.TurnEvent
	if stream, err := once.Conversations.Prompt(ctx, conv, api.Prompt{Prompt: prompt}); err == nil {
		for e, err := range stream.Events() {
			if err != nil {
				break
			}
			events = append(events, e)
		}
	}
	if n := len(events); n > 0 && events[n-1].Type == api.EventTurnFinished && !strings.HasPrefix(window, "finished") {
		t.Fatalf("the window %q was not hit:\n%s", window, p.logs)
	}
	_ = p.cmd.Wait()
	p = start(t, env)
	c := p.client(t)
	var turn api.Turn
	for found, err := range c.Conversations.Turns(t.Context(), conv) {
		if err != nil {
			t.Fatal(err)
		}
		turn = found
		break
	}
	events = append(events, readTurn(t, c, conv, turn.ID, int64(len(events)))...)
	whole := readTurn(t, c, conv, turn.ID, 0)
	if fmt.Sprint(types(events)) != fmt.Sprint(types(whole)) || spoken(events) != spoken(whole) {
		t.Errorf("%s: the parts are\n%v\n%q\nand the log\n%v\n%q", window, types(events), spoken(events), types(whole), spoken(whole))
	}
	if end := lastEvent(t, whole); end.Status != api.TurnCompleted || *end.Usage != *want.Usage || !end.VersionPending && (end.Version == "" || len(end.Warnings) > 0) {
		t.Errorf("%s: the turn ended with %+v, usage %+v; want usage %+v", window, end, end.Usage, want.Usage)
	}
	testkit.Eventually(t, 2*time.Minute, func() error {
		got, err := c.Conversations.Turn(t.Context(), conv, turn.ID)
		if err == nil && (got.Version == "" || got.VersionPending || len(got.Warnings) > 0) {
			err = fmt.Errorf("turn %s has version %q and warnings %v", turn.ID, got.Version, got.Warnings)
		}
		return err
	})
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
}

// prompted begins a turn and waits for its end.
func prompted(t *testing.T, c *client.Client, conv, prompt string) string {
	t.Helper()
	stream, err := c.Conversations.Prompt(t.Context(), conv, api.Prompt{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	var turn string
	for e, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventTurnStarted {
			turn = e.TurnID
		}
	}
	return turn
}

// readTurn reads the events of a turn behind a number, to the end.
func readTurn(t *testing.T, c *client.Client, conv, turn string, after int64) (events []api.TurnEvent) {
	t.Helper()
	stream, err := c.Conversations.Follow(t.Context(), conv, turn, after)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func lastEvent(t *testing.T, events []api.TurnEvent) api.TurnEvent {
	t.Helper()
	if len(events) == 0 || events[len(events)-1].Type != api.EventTurnFinished {
		t.Fatalf("the turn did not finish: %+v", events)
	}
	return events[len(events)-1]
}

func types(events []api.TurnEvent) (all []string) {
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

// spoken is everything that was said, deltas too.
func spoken(events []api.TurnEvent) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Text + "\n")
	}
	return b.String()
}
