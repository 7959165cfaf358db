package chat_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

func TestTurnFromPromptToFinish(t *testing.T) {
	testkit.Proves(t, "C5", "C7", "H4")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		turn := r.ask(c, "one two three four")
		events := r.hear(turn, 0)
		first, end := events[0], last(events)
		if first.Type != api.EventTurnStarted || first.ConversationID != c.ID || first.TurnID != turn.ID || first.MessageID != turn.Message || first.SandboxID == "" {
			w.Errorf("the first event is %+v", first)
		}
		if text(events) != "one two three four" {
			w.Errorf("said %q", text(events))
		}
		if end.Status != api.TurnCompleted || end.Usage == nil || end.Usage.OutputTokens != 4 || end.Stats == nil || end.Stats.MessagesExchanged != 2 ||
			end.Stats.TotalOutputTokens != 4 || end.Version != "version-of-"+turn.ID || !slices.Equal(end.Warnings, []string{"a warning"}) || end.CostUSD != 0.004 {
			w.Errorf("the last event is %+v, usage %+v, stats %+v", end, end.Usage, end.Stats)
		}
		messages := r.settled(c)
		if len(messages) != 2 || messages[0].Role != api.RoleUser || messages[0].Text() != "one two three four" || messages[0].ID != turn.Message ||
			messages[1].Role != api.RoleAssistant || messages[1].ID != turn.Reply || messages[1].Model != "script-1" || messages[1].Status != api.TurnCompleted {
			w.Errorf("messages are %+v", messages)
		}
		for _, m := range messages {
			if n := w.times("message " + m.ID); n != 1 {
				w.Errorf("hooks ran %d times for the message of the %s", n, m.Role)
			}
		}
		if n := w.times("finish " + turn.ID); n != 1 {
			w.Errorf("hooks ran %d times after the turn", n)
		}
		sb, err := w.db.In(acme).ByID(w.Context(), turn.Sandbox)
		if err != nil || sb.Spec.Metadata["total_output_tokens"] != "4" {
			w.Errorf("the sandbox's metadata is %v, %v", sb.Spec.Metadata, err)
		}
	})
}

// An agent that tells absurd figures does not spoil what its tenant's usage adds up to, and the figures are marked.
func TestAbsurdFiguresAreCutAndMarked(t *testing.T) {
	testkit.Proves(t, "C7")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		for range 2 {
			events := r.hear(r.ask(c, "lie"), 0)
			live := slices.IndexFunc(events, func(e api.TurnEvent) bool { return e.Type == api.EventUsage })
			if live < 0 {
				w.Fatalf("no tokens so far in %+v", events)
			}
			if e := events[live]; !e.Usage.Bounded || e.Usage.InputTokens > 1<<40 || e.Usage.CacheReadTokens < 0 || e.CostUSD > 1e6 {
				w.Errorf("the tokens so far are %+v, %v dollars", e.Usage, e.CostUSD)
			}
			end := last(events)
			if end.Usage == nil || !end.Usage.Bounded || !end.Usage.Estimated || end.CostUSD > 1e6 {
				w.Errorf("the last event is %+v, usage %+v", end, end.Usage)
			}
			if s := end.Stats; s == nil || s.TotalInputTokens <= 0 || s.TotalInputTokens > 1<<40 || s.TotalOutputTokens > 1<<40 || s.TotalCostUSD > 1e7 || s.TotalCacheTokens < 0 {
				w.Errorf("stats are %+v", s)
			}
		}
	})
}

// Each message that is saved is logged with its key, its tokens and what all of them add up to.
func TestSavedMessagesAreLogged(t *testing.T) {
	testkit.Proves(t, "C12")
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	var log bytes.Buffer
	w.logger = slog.New(slog.NewJSONHandler(&log, nil))
	r := w.serve()
	c := r.talk()
	turn := r.ask(c, "one two")
	r.hear(turn, 0)
	r.end()
	for _, want := range []string{
		`"message_id":"` + turn.Message, `"message_id":"` + turn.Reply, `"conversation_id":"` + c.ID, `"role":"assistant"`,
		`"output_tokens":2`, `"messages_exchanged":2`, `"total_output_tokens":2`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	}
}

func TestSessionGoesOn(t *testing.T) {
	testkit.Proves(t, "C9")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		r.hear(r.ask(c, "one"), 0)
		r.hear(r.ask(c, "two"), 0)
		events := r.hear(r.ask(c, "nosession three"), 0)
		if !slices.Contains(statuses(events), "session_replaced") || text(events) != "nosession three" || last(events).Status != api.TurnCompleted {
			w.Errorf("without a session: %v, %q, %+v", statuses(events), text(events), last(events))
		}
		r.hear(r.ask(c, "four"), 0)
		asked := w.agents.asked
		if len(asked) != 5 {
			w.Fatalf("%d attempts, want 5", len(asked))
		}
		one, two, gone, anew, four := asked[0], asked[1], asked[2], asked[3], asked[4]
		if one.Session.Resume || !two.Session.Resume || two.Session.ID != one.Session.ID || gone.Session.ID != one.Session.ID {
			w.Errorf("sessions are %+v, %+v, %+v", one.Session, two.Session, gone.Session)
		}
		if anew.Session.Resume || anew.Session.ID == one.Session.ID || len(anew.History) != 4 || anew.History[0].Text() != "one" || anew.History[3].Text() != "two" {
			w.Errorf("the new session is %+v with a history of %d", anew.Session, len(anew.History))
		}
		if !four.Session.Resume || four.Session.ID != anew.Session.ID || len(four.History) != 0 {
			w.Errorf("the session after it is %+v", four.Session)
		}
		r.settled(c)
	})
}

func TestPromptIsRetriedOnceAndOnlyUnseen(t *testing.T) {
	testkit.Proves(t, "O5")
	onBoth(t, func(w *world) {
		r := w.serve()
		for prompt, want := range map[string]struct {
			starts int
			status string
		}{
			"again one":      {2, api.TurnCompleted},
			"always one":     {2, api.TurnInterrupted},
			"seen again":     {1, api.TurnInterrupted},
			"fail":           {1, api.TurnFailed},
			"something fail": {1, api.TurnFailed},
		} {
			c := r.talk()
			turn := r.ask(c, prompt)
			events := r.hear(turn, 0)
			if got := last(events); got.Status != want.status || w.agents.starts[turn.ID] != want.starts {
				w.Errorf("%q: %s after %d starts, want %s after %d", prompt, got.Status, w.agents.starts[turn.ID], want.status, want.starts)
			}
			if want.status != api.TurnCompleted && !slices.ContainsFunc(events, func(e api.TurnEvent) bool { return e.Type == api.EventTurnError && e.Code != "" }) {
				w.Errorf("%q: no event says what went wrong", prompt)
			}
			if n := w.times("finish " + turn.ID); n != 1 {
				w.Errorf("%q: hooks ran %d times after the turn", prompt, n)
			}
			messages := r.settled(c)
			if len(messages) != 2 || messages[1].Status != want.status {
				w.Errorf("%q: messages are %+v", prompt, messages)
			}
		}
	})
}

func TestCancel(t *testing.T) {
	testkit.Proves(t, "C3")
	onBoth(t, func(w *world) {
		r, other := w.serve(), w.serve()
		c := r.talk()
		runs := r.ask(c, "one wait:forever two")
		waits := r.ask(c, "three", queued)
		r.reaches(runs, 2)
		if _, err := other.chat.Cancel(w.Context(), acme, waits.ID, "not needed"); err != nil {
			w.Fatal(err)
		}
		if got := last(other.hear(waits, 0)); got.Status != api.TurnCancelled || got.Message != "not needed" || w.agents.starts[waits.ID] != 0 {
			w.Errorf("the turn that waited ended with %+v", got)
		}
		if _, err := other.chat.Cancel(w.Context(), acme, runs.ID, "enough"); err != nil {
			w.Fatal(err)
		}
		events := r.hear(runs, 0)
		if got := last(events); got.Status != api.TurnCancelled || text(events) != "one" {
			w.Errorf("the turn ended with %+v after %q", got, text(events))
		}
		_, err := r.chat.Cancel(w.Context(), acme, runs.ID, "again")
		wantCode(w, err, api.CodeTurnFinished)
		_, err = r.chat.Cancel(w.Context(), "other", runs.ID, "not mine")
		wantCode(w, err, api.CodeNotFound)
		messages := r.settled(c)
		if len(messages) != 4 || messages[1].Status != api.TurnCancelled || messages[1].Text() != "one" {
			w.Errorf("messages are %+v", messages)
		}
		if events := r.hear(r.ask(c, "five"), 0); text(events) != "five" {
			w.Errorf("the next turn said %q", text(events))
		}
	})
}

func TestQueuedTurnsRunInOrder(t *testing.T) {
	testkit.Proves(t, "C3")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		first := r.ask(c, "wait:first one")
		_, err := r.try(c, "refused")
		wantCode(w, err, api.CodeTurnRunning)
		var turns []store.Turn
		for i := range 5 {
			turns = append(turns, r.ask(c, fmt.Sprint("queued", i), queued))
		}
		w.agents.let("first")
		r.hear(first, 0)
		for i, turn := range turns {
			if got := text(r.hear(turn, 0)); got != fmt.Sprint("queued", i) {
				w.Errorf("turn %d said %q", i, got)
			}
		}
		var said []string
		for _, m := range r.settled(c) {
			if m.Role == api.RoleAssistant {
				said = append(said, m.Text())
			}
		}
		if want := []string{"one", "queued0", "queued1", "queued2", "queued3", "queued4"}; !slices.Equal(said, want) {
			w.Errorf("the answers are %q", said)
		}
	})
}

// Two conversations in one sandbox take turns; each has its own session.
func TestConversationsShareASandbox(t *testing.T) {
	testkit.Proves(t, "C10")
	onBoth(t, func(w *world) {
		r := w.serve()
		mine := r.chat.Of(r.db.In(acme), "test", "")
		one := r.talk()
		r.hear(r.ask(one, "hello"), 0)
		one, err := mine.Get(w.Context(), one.ID)
		if err != nil {
			w.Fatal(err)
		}
		two, _, err := mine.Create(w.Context(), api.CreateConversation{SandboxID: one.Sandbox})
		if err != nil || two.OwnSandbox || two.Sandbox != one.Sandbox {
			w.Fatalf("the second is %+v, %v", two, err)
		}
		runs := r.ask(two, "wait:two hello")
		_, err = r.try(one, "hello")
		wantCode(w, err, api.CodeTurnRunning)
		waits := r.ask(one, "again hello", queued)
		w.agents.let("two")
		r.hear(runs, 0)
		r.hear(waits, 0)
		one, _ = mine.Get(w.Context(), one.ID)
		two, _ = mine.Get(w.Context(), two.ID)
		if one.Session == two.Session || one.Session == "" || two.Session == "" {
			w.Errorf("the sessions are %q and %q", one.Session, two.Session)
		}
		if err := mine.Delete(w.Context(), two.ID, chat.Deletion{}); err != nil {
			w.Fatal(err)
		}
		if _, err := w.db.In(acme).ByID(w.Context(), one.Sandbox); err != nil {
			w.Errorf("deleting a linked conversation ended the sandbox: %v", err)
		}
		three, _, err := mine.Create(w.Context(), api.CreateConversation{SandboxID: one.Sandbox})
		if err != nil {
			w.Fatal(err)
		}
		if err := mine.Delete(w.Context(), one.ID, chat.Deletion{}); err != nil {
			w.Fatal(err)
		}
		if _, err := w.db.In(acme).ByID(w.Context(), three.Sandbox); err != nil {
			w.Errorf("deleting a conversation ended a sandbox that another uses: %v", err)
		}
		if _, err := mine.Get(w.Context(), one.ID); fault.CodeOf(err) != api.CodeDeleted {
			w.Errorf("the deleted conversation is %v", err)
		}
	})
}

func TestDeleteEndsTheTurnAndTheSandbox(t *testing.T) {
	testkit.Proves(t, "O7")
	onBoth(t, func(w *world) {
		r := w.serve()
		mine := r.chat.Of(r.db.In(acme), "test", "")
		c := r.talk()
		turn := r.ask(c, "one wait:forever")
		r.reaches(turn, 2)
		if err := mine.Delete(w.Context(), c.ID, chat.Deletion{}); err != nil {
			w.Fatal(err)
		}
		got, err := w.db.In(acme).Turns().Get(w.Context(), turn.ID)
		if err != nil || got.Status != api.TurnCancelled || w.times("finish "+turn.ID) != 1 {
			w.Errorf("the turn is %+v, %v", got.Status, err)
		}
		if _, err := w.db.In(acme).ByID(w.Context(), turn.Sandbox); fault.CodeOf(err) != api.CodeDeleted {
			w.Errorf("the sandbox is %v", err)
		}
		_, err = r.try(c, "more")
		wantCode(w, err, api.CodeDeleted)
	})
}

// A turn whose conversation's last sandbox is still being deleted says so in its stream, goes on when the delete is
// done, and otherwise ends with the code that says why.
func TestTurnWaitsForADeleteAndSaysSo(t *testing.T) {
	testkit.Proves(t, "C3")
	onBoth(t, func(w *world) {
		r := w.serve(func(o *chat.Options) { o.Patience = 20 * time.Second })
		c := r.talk()
		turn := r.ask(c, "one")
		r.hear(turn, 0)
		stuck := r.driver.(*fake.Driver).On(fake.Destroy).Fail(fake.ErrUnreachable)
		brief, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := r.engine.Delete(brief, string(acme), turn.Sandbox, "test", true); err != nil {
			w.Fatal(err)
		}
		next := r.ask(c, "two")
		got := r.hear(next, 0)
		if e := last(got); e.Status != api.TurnFailed || e.Code != api.CodeDeleting {
			w.Errorf("the turn ended with %+v", e)
		}
		if !slices.ContainsFunc(got, func(e api.TurnEvent) bool {
			return e.Status == chat.StatusWaiting && e.Code == api.CodeDeleting && strings.Contains(e.Message, turn.Sandbox)
		}) {
			w.Errorf("nothing says what it waits for: %+v", got)
		}
		next = r.ask(c, "three")
		r.reaches(next, 2)
		stuck.Off()
		if e := last(r.hear(next, 0)); e.Status != api.TurnCompleted {
			w.Errorf("the turn ended with %+v", e)
		}
	})
}

func TestClearAsksOrEnds(t *testing.T) {
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		turn := r.ask(c, "one wait:forever")
		wantCode(w, r.chat.Clear(w.Context(), acme, turn.Sandbox, false, "stop"), api.CodeTurnRunning)
		if err := r.chat.Clear(w.Context(), acme, turn.Sandbox, true, "stop"); err != nil {
			w.Fatal(err)
		}
		if got := last(r.hear(turn, 0)); got.Status != api.TurnCancelled {
			w.Errorf("the turn ended with %+v", got)
		}
		if err := r.chat.Clear(w.Context(), acme, turn.Sandbox, false, "stop"); err != nil {
			w.Error(err)
		}
	})
}

func TestFloodEndsTheTurn(t *testing.T) {
	testkit.Proves(t, "E6")
	onBoth(t, func(w *world) {
		r := w.serve(func(o *chat.Options) { o.MaxLog = 100 << 10 })
		c := r.talk()
		t := r.ask(c, "flood")
		events := r.hear(t, 0)
		if got := last(events); got.Status != api.TurnFailed || got.Code != api.CodeOutputLimit {
			w.Errorf("the turn ended with %+v", got)
		}
		if n := len(text(events)); n > 300<<10 {
			w.Errorf("%d bytes were kept", n)
		}
		r.settled(c)
	})
}

func TestBadPrompts(t *testing.T) {
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	r := w.serve()
	c := r.talk()
	for name, prompt := range map[string]string{"empty": " \n", "too long": strings.Repeat("x", chat.MaxPrompt+1), "not text": "a\xffb", "zeros": "a\x00b"} {
		_, err := r.try(c, prompt)
		if err == nil || fault.CodeOf(err) != api.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := strings.Repeat("x", chat.MaxPrompt)
	if got := text(r.hear(r.ask(c, long), 0)); got != long {
		t.Errorf("a long prompt came back with %d bytes", len(got))
	}
	unknown := w.serve(func(o *chat.Options) { o.Runtimes = map[string]agent.Runtime{} })
	_, err := unknown.try(c, "hello")
	wantCode(t, err, api.CodeUnknownRuntime)
	if got := r.settled(c); len(got) != 2 {
		for _, m := range got {
			t.Logf("%s %s, %d bytes", m.ID, m.Role, len(m.Text()))
		}
		t.Errorf("%d messages, want the long prompt and its answer", len(got))
	}
}

func TestTenantsTurnsAreBounded(t *testing.T) {
	testkit.Proves(t, "E6")
	onBoth(t, func(w *world) {
		r := w.serve(func(o *chat.Options) { o.MaxTurns = 2 })
		one := r.ask(r.talk(), "wait:x")
		r.ask(r.talk(), "wait:x")
		_, err := r.try(r.talk(), "hello")
		wantCode(w, err, api.CodeQuotaExceeded)
		w.agents.let("x")
		r.hear(one, 0)
		testkit.Eventually(w, patience, func() error {
			_, err := r.try(r.talk(), "hello")
			return err
		})
	})
}

// The log of a turn is not kept for ever; a late reader gets a resync.
func TestForgottenLogIsAResync(t *testing.T) {
	onBoth(t, func(w *world) {
		r := w.serve()
		turn := r.ask(r.talk(), "one two")
		r.hear(turn, 0)
		if n, err := w.db.TurnRuns().Forget(w.Context(), 0, 10); err != nil || n == 0 {
			w.Fatalf("%d, %v", n, err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		var got []api.TurnEvent
		for e, err := range r.chat.Events(ctx, turn, 1) {
			if err != nil || e.Seq != 0 {
				w.Fatal(e, err)
			}
			got = append(got, decoded(w, e.Data))
		}
		if len(got) != 1 || got[0].Type != api.EventResync {
			w.Errorf("the events are %+v", got)
		}
	})
}
