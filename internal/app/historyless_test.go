package app_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/app"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/dynamotest"
)

// A message store that refuses, hangs or answers garbage holds up no prompt: the agent starts without the
// history and the stream says so, reads answer 503 with a code, readiness is degraded. Afterwards every message
// is there, and counted once.
func TestPromptIsAnsweredWithoutTheMessageStore(t *testing.T) {
	testkit.Proves(t, "C5", "C6", "H5")
	t.Parallel()
	proxy, table := dynamotest.Before(t, dynamotest.New(t))
	env := append(local(t), "BERTH_MESSAGE_STORE="+table.URL())
	cfg := configured(t, env)
	if _, err := app.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	p := start(t, env)
	m := &mail{T: t, p: p, sent: map[string]string{}}
	for name, fate := range map[string]dynamotest.Fate{
		"refused": {Cut: true}, "hanging": {Hang: true},
		"garbage": {Status: 200, Body: "<html>welcome</html>"}, "empty": {Status: 200, Type: "text/html"},
	} {
		t.Log("the message store:", name)
		conv := created(t, p)
		m.convs = append(m.convs, conv)
		proxy.Set(func(string) dynamotest.Fate { return fate })
		m.talkThrough(conv)
		if fate.Hang {
			m.soonAnswered(conv)
		}
		m.refusedReads(conv)
		m.degraded()
		proxy.Set(nil)
	}
	m.settle()
	m.check()
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	found, err := app.Fsck(t.Context(), cfg)
	if err != nil || len(found.Problems) > 0 || found.Messages != 2*int64(len(m.sent)) || found.Undelivered != 0 {
		t.Errorf("fsck: %+v, %v", found, err)
	}
}

func created(t *testing.T, p *process) string {
	t.Helper()
	conv, _, err := p.client(t).Conversations.Create(t.Context(), api.CreateConversation{Template: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	return conv.ID
}

// talkThrough sends a prompt and reads its stream to the end.
func (m *mail) talkThrough(conv string) {
	m.Helper()
	prompt := fmt.Sprintf("run echo %d", len(m.sent))
	turn, err := m.p.client(m.T).Conversations.Prompt(m.Context(), conv, api.Prompt{Prompt: prompt})
	if err != nil {
		m.Fatal(err)
	}
	var events []api.TurnEvent
	for e, err := range turn.Events() {
		if err != nil {
			m.Fatal(err)
		}
		events = append(events, e)
	}
	first, last := events[0], events[len(events)-1]
	m.sent[first.MessageID] = prompt
	if last.Type != api.EventTurnFinished || last.Status != api.TurnCompleted {
		m.Errorf("the turn ended with %+v", last)
	}
	if !slices.ContainsFunc(events, func(e api.TurnEvent) bool {
		return e.Type == api.EventStatus && e.Status == "history_unavailable" && e.Code == api.CodeMessageStore && forPeople(e.Message)
	}) {
		m.Errorf("nothing says that the history is missing: %+v", events)
	}
	if len(last.Warnings) != 1 || !forPeople(last.Warnings[0]) {
		m.Errorf("nothing says that the answer is not stored yet: %q", last.Warnings)
	}
}

// forPeople reports whether a text about the message store says what to do, in one line and without the store's address.
func forPeople(text string) bool {
	return strings.Contains(text, "message store") && strings.Contains(text, "berth doctor") && !strings.Contains(text, "://") && !strings.Contains(text, "\n")
}

// soonAnswered checks that a turn does not wait for a store that did not answer to an earlier message. The full waits
// are four seconds in each turn.
func (m *mail) soonAnswered(conv string) {
	m.Helper()
	var took []time.Duration
	for range 5 {
		begun := time.Now()
		prompt := fmt.Sprintf("run echo %d", len(m.sent))
		turn, err := m.p.client(m.T).Conversations.Prompt(m.Context(), conv, api.Prompt{Prompt: prompt})
		if err != nil {
			m.Fatal(err)
		}
		for e, err := range turn.Events() {
			if err != nil {
				m.Fatal(err)
			}
			if e.Type == api.EventTurnStarted {
				m.sent[e.MessageID] = prompt
			}
		}
		if took = append(took, time.Since(begun)); took[len(took)-1] < 3500*time.Millisecond {
			return
		}
	}
	m.Errorf("each of the turns waited for the message store: %v", took)
}

// refusedReads reads messages, which are refused with a code. Without a bound that takes a minute.
func (m *mail) refusedReads(conv string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 30*time.Second)
	defer cancel()
	c := m.p.client(m.T, client.WithAttempts(1)).Conversations
	_, one := c.Message(ctx, conv, conv)
	var list error
	for _, err := range c.Messages(ctx, conv) {
		list = err
	}
	for what, err := range map[string]error{"one": one, "list": list} {
		if pr := problem(err); pr.Code != api.CodeMessageStore || pr.Status != http.StatusServiceUnavailable || !pr.Retryable {
			m.Errorf("%s: %v", what, err)
		}
	}
}

// degraded waits until readiness says that the message store is missing, and stays 200.
func (m *mail) degraded() {
	m.Helper()
	testkit.Eventually(m, time.Minute, func() error {
		ready, err := m.p.client(m.T).Ready(m.Context())
		if err != nil || ready.Status != "degraded" || !slices.ContainsFunc(ready.Checks, func(c api.Check) bool {
			return c.Name == "message store" && c.Status == "warning" && c.Detail != "" && c.Fix != ""
		}) {
			return fmt.Errorf("%+v, %v", ready, err)
		}
		return nil
	})
}
