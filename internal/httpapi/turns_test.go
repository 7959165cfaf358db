package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/testkit"
)

// upToStart reads the first event.
func (s turnWatcher) upToStart() received {
	s.t.Helper()
	e, err := s.event()
	if err != nil || e.Type != api.EventTurnStarted {
		s.t.Fatalf("it begins with %+v, %v", e, err)
	}
	return e
}

// A client that was cut off, at every event there is, sees the rest once and in order.
func TestTurnIsResumedAnywhere(t *testing.T) {
	testkit.Proves(t, "C3")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		path, _ := w.new("")
		s := w.prompt(path+"/messages", "a b wait:x c d")
		before := s.upTo("b")
		s.close()
		events := path + "/turns/" + s.turn() + "/events"
		running := into[api.Turn](w.get(path + "/turns/" + s.turn()).is(http.StatusOK))
		if running.Status != api.TurnRunning || running.FinishedAt != nil {
			t.Errorf("%+v", running)
		}
		// Two readers, from different places, while it goes on.
		late, early := w.follow(http.MethodGet, events, "", "Last-Event-ID", before[len(before)-1].id), w.follow(http.MethodGet, events, "")
		early.upTo("b")
		w.agents.open("x")
		rest := late.rest()
		if said(rest) != "wait:x c d" || said(early.rest()) != "wait:x c d" {
			t.Errorf("%+v", rest)
		}
		whole := slices.Concat(before, rest)
		for i := range whole {
			for _, after := range []string{whole[i].id, fmt.Sprint(i + 1)} {
				if i == len(whole)-1 {
					w.get(events + "?after=" + after).is(http.StatusNoContent)
					continue
				}
				got := w.follow(http.MethodGet, events+"?after="+after, "").rest()
				if len(got) != len(whole)-1-i || got[0].id != whole[i+1].id || got[0].Type != whole[i+1].Type {
					t.Errorf("after %s: %+v", after, got)
				}
			}
		}
		if got := w.follow(http.MethodGet, events+"?after=0", "").rest(); len(got) != len(whole) {
			t.Errorf("%+v", got)
		}
		// What EventSource remembers is newer than the address.
		w.do(call{path: events + "?after=1", key: w.read, header: map[string]string{"Last-Event-ID": whole[len(whole)-1].id}}).is(http.StatusNoContent)
		done := into[api.Turn](w.get(path + "/turns/" + s.turn()).is(http.StatusOK))
		if done.Status != api.TurnCompleted || done.FinishedAt == nil || done.StartedAt == nil || done.Usage.OutputTokens != 5 {
			t.Errorf("%+v", done)
		}
	})
}

// A place in another turn is no place in this one (attack 17).
func TestCursorOfAnotherTurnIsRefused(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	path, _ := w.new("")
	first, second := w.prompt(path+"/messages", "secret a b c"), ""
	last := first.rest()
	s := w.prompt(path+"/messages", "x")
	s.rest()
	second = path + "/turns/" + s.turn() + "/events"
	for _, after := range []string{last[1].id, someID + ".1", s.turn(), s.turn() + ".", s.turn() + ".x", s.turn() + ".-1", s.turn() + ".01", s.turn() + ".1.1", "." + "1", "-1", "x", "1e3", "99", s.turn() + ".99", s.turn() + ".9223372036854775808", "%20", "1%0a"} {
		w.get(second + "?after=" + after).fails(api.CodeInvalidRequest)
		if !strings.Contains(after, "%") {
			w.do(call{path: second, key: w.read, header: map[string]string{"Last-Event-ID": after}}).fails(api.CodeInvalidRequest)
		}
	}
}

// The output of an agent is always data of one event (attack 33).
func TestHostileEventsStayData(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	path, _ := w.new("")
	hostile := "\n\nevent:done\ndata:{}\n\nid:7\r\rretry:1\r\n:x\u2028\u2029\x1b]0;t\x07</script>"
	input := "{\"a\":\r\n\t\"b\u2028\"}"
	text, _ := json.Marshal(hostile)
	events := w.prompt(path+"/messages", "json:{\"type\":\"text\",\"text\":"+strings.ReplaceAll(string(text), " ", "\\u0020")+"} json:{\"type\":\"tool.call\",\"id\":\"1\",\"name\":\"x\",\"input\":"+input+"} end").rest()
	if len(events) != 5 || events[1].Text != hostile || string(events[2].Input) != `{"a":"b\u2028"}` {
		t.Errorf("%+v", events)
	}
}

// What the agent itself wrote comes only to those who ask.
func TestRawIsSentOnRequest(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new("")
	s := w.prompt(path+"/messages?raw=true", "a")
	if got := s.rest(); string(got[1].Raw) != `{"line":"a"}` {
		t.Errorf("%+v", got)
	}
	events := path + "/turns/" + s.turn() + "/events"
	if got := w.follow(http.MethodGet, events+"?raw=true", "").rest(); string(got[1].Raw) != `{"line":"a"}` {
		t.Errorf("%+v", got)
	}
	for _, e := range w.follow(http.MethodGet, events+"?raw=false", "").rest() {
		if e.Raw != nil || e.id == "" {
			t.Errorf("%+v", e)
		}
	}
}

func TestTurnIsCancelled(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	path, _ := w.new("")
	s := w.prompt(path+"/messages", "a wait:never")
	s.upTo("a")
	cancel := path + "/turns/" + s.turn() + "/cancel"
	got := into[api.Turn](w.post(cancel, `{"reason":"enough"}`).is(http.StatusAccepted))
	if got.ID != s.turn() {
		t.Errorf("%+v", got)
	}
	events := s.rest()
	if end := events[len(events)-1]; end.Status != api.TurnCancelled || end.Message != "enough" || end.Usage.OutputTokens != 2 {
		t.Errorf("%+v", end)
	}
	w.post(cancel, "").fails(api.CodeTurnFinished)
	// What was said by then is kept.
	messages := into[api.List[api.Message]](w.get(path + "/messages").is(http.StatusOK)).Items
	if len(messages) != 2 || messages[1].Status != api.TurnCancelled || messages[1].Text() != "a" {
		t.Errorf("%+v", messages)
	}
}

func TestSecondPromptIsRefusedOrQueued(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	path, _ := w.new("")
	s := w.prompt(path+"/messages", "wait:x")
	s.upToStart()
	w.post(path+"/messages", promptBody("no")).fails(api.CodeTurnRunning)
	second, third := w.prompt(path+"/messages?queue=true", "two"), w.prompt(path+"/messages?queue=true", "three")
	second.upToStart()
	if e, err := second.event(); err != nil || e.Status != "queued" {
		t.Errorf("%+v, %v", e, err)
	}
	w.post(path+"/messages?queue=true", promptBody("four")).fails(api.CodeQueueFull)
	if got := into[api.Turn](w.get(path + "/turns/" + third.turn()).is(http.StatusOK)); got.Status != api.TurnQueued {
		t.Errorf("%+v", got)
	}
	// One that waits is cancelled without having run.
	w.post(path+"/turns/"+third.turn()+"/cancel", "").is(http.StatusAccepted)
	if got := third.rest(); said(got) != "" || got[len(got)-1].Status != api.TurnCancelled {
		t.Errorf("%+v", got)
	}
	w.agents.open("x")
	s.rest()
	if got := second.rest(); said(got) != "two" {
		t.Errorf("%+v", got)
	}
}

// The same key joins the turn, while it runs and after it.
func TestPromptWithAKeyIsOneTurn(t *testing.T) {
	testkit.Proves(t, "C3")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		path, _ := w.new("")
		key := []string{idempotencyHeader, "once"}
		first := w.prompt(path+"/messages", "a wait:x b", key...)
		first.upTo("a")
		joined := w.prompt(path+"/messages", "a wait:x b", key...)
		if joined.turn() != first.turn() || joined.res.Header.Get(replayedHeader) != "true" {
			t.Errorf("%v", joined.res.Header)
		}
		joined.upTo("a")
		w.do(call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("other"), header: map[string]string{idempotencyHeader: "once"}}).fails(api.CodeKeyReused)
		w.agents.open("x")
		joined.rest()
		first.rest()
		after := w.prompt(path+"/messages", "a wait:x b", key...)
		if events := after.rest(); after.turn() != first.turn() || said(events) != "a wait:x b" || events[0].Type != api.EventTurnStarted {
			t.Errorf("%+v", events)
		}
		asJSON := w.do(call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("a wait:x b"), header: map[string]string{idempotencyHeader: "once", "Accept": "application/json"}}).is(http.StatusAccepted)
		if got := into[api.Turn](asJSON); got.ID != first.turn() || got.Status != api.TurnCompleted {
			t.Errorf("%+v", got)
		}
		if got := into[api.List[api.Turn]](w.get(path + "/turns").is(http.StatusOK)).Items; len(got) != 1 {
			t.Errorf("%+v", got)
		}
		w.remove(path).is(http.StatusNoContent)
		w.do(call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("a wait:x b"), header: map[string]string{idempotencyHeader: "once"}}).fails(api.CodeDeleted)
	})
}

// Of many at once with one key, all watch one turn; none is refused.
func TestPromptsWithOneKeyRace(t *testing.T) {
	testkit.Proves(t, "C3")
	talksOnBoth(t, func(t *testing.T, w *talks) {
		conv, box := exchange.NewID(), exchange.NewID()
		path := "/conversations/" + conv + "/sandbox/" + box
		turns := make([]string, 12)
		var wg sync.WaitGroup
		for i := range turns {
			wg.Go(func() {
				res, err := w.send(t.Context(), call{method: http.MethodPost, path: path, key: w.write, body: promptBody("a b c"), header: map[string]string{idempotencyHeader: "k"}})
				if err != nil || res.status != http.StatusOK || !strings.Contains(string(res.body), api.EventTurnFinished) {
					t.Errorf("%d %v: %s", res.status, err, res.body)
				}
				turns[i] = res.header.Get(api.HeaderTurnID)
			})
		}
		wg.Wait()
		if len(slices.Compact(turns)) != 1 {
			t.Errorf("turns %v", turns)
		}
		if got := into[api.Conversation](w.get(conversationsPath + "/" + conv).is(http.StatusOK)); got.Stats.MessagesExchanged != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// A prompt that was refused leaves its key free.
func TestRefusedPromptLeavesItsKeyFree(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new("")
	s := w.prompt(path+"/messages", "wait:x")
	s.upToStart()
	again := call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("b"), header: map[string]string{idempotencyHeader: "k"}}
	w.do(again).fails(api.CodeTurnRunning)
	w.agents.open("x")
	s.rest()
	if got := w.do(again).is(http.StatusOK); got.header.Get(replayedHeader) != "" {
		t.Errorf("%v", got.header)
	}
	again.header = map[string]string{idempotencyHeader: ""}
	w.do(again).fails(api.CodeInvalidKey)
}

func TestPromptAnswersAsJSON(t *testing.T) {
	w := newTalks(t)
	path, c := w.new("")
	got := w.do(call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("a"), header: map[string]string{"Accept": "application/json"}}).is(http.StatusAccepted)
	turn := into[api.Turn](got)
	if turn.ConversationID != c.ID || turn.MessageID == "" || got.header.Get(api.HeaderTurnID) != turn.ID || got.header.Get("Location") != path+"/turns/"+turn.ID+"/events" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v, %v", turn, got.header)
	}
	if events := w.follow(http.MethodGet, got.header.Get("Location"), "").rest(); said(events) != "a" {
		t.Errorf("%+v", events)
	}
	// Who takes both, or says nothing, gets the stream.
	for _, accept := range []string{"application/json, text/event-stream", "application/json, text/plain, */*", "*/*", "text/html"} {
		w.do(call{method: http.MethodPost, path: path + "/messages", key: w.write, body: promptBody("a"), header: map[string]string{"Accept": accept}}).is(http.StatusOK)
	}
}

// When the events are gone, the reader gets a resync event.
func TestForgottenTurnAnswersResync(t *testing.T) {
	testkit.Proves(t, "C3")
	w := newTalks(t)
	path, c := w.new("")
	s := w.prompt(path+"/messages", "a b")
	last := s.rest()
	if _, err := w.db.TurnRuns().Forget(t.Context(), -time.Minute, 100); err != nil {
		t.Fatal(err)
	}
	events := path + "/turns/" + s.turn() + "/events"
	stream := w.follow(http.MethodGet, events+"?after=1", "")
	e, err := stream.event()
	if err != nil || e.Type != api.EventResync || e.id != "" || e.ConversationID != c.ID {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := stream.event(); err == nil {
		t.Error("something comes after it")
	}
	w.get(events + "?after=" + last[len(last)-1].id).is(http.StatusNoContent)
}

// A server that goes ends its streams; the turn is resumed at the next.
func TestDrainEndsTurnStreams(t *testing.T) {
	w := newTalks(t)
	path, _ := w.new("")
	s := w.prompt(path+"/messages", "a wait:x")
	s.upTo("a")
	w.Drain()
	if e, err := s.event(); err == nil {
		t.Errorf("%+v", e)
	}
	if s.lines.Err() != nil {
		t.Errorf("it ends with %v", s.lines.Err())
	}
	w.agents.open("x")
}
