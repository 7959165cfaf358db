package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
)

// turnLog is the events of turn t1, whose last is turn.finished.
func turnLog(n int) (events []string) {
	for i := range n {
		events = append(events, fmt.Sprintf(`{"type":"text.delta","text":"%d "}`, i+1))
	}
	events[0] = `{"type":"turn.started","conversation_id":"c1","turn_id":"t1"}`
	events[n-1] = `{"type":"turn.finished","status":"completed"}`
	return events
}

func numbered(w http.ResponseWriter, seq int, data string) {
	fmt.Fprintf(w, "id: t1.%d\ndata: %s\n\n", seq, data)
	_ = http.NewResponseController(w).Flush()
}

func turning(w http.ResponseWriter, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	if id != "" {
		w.Header().Set(api.HeaderTurnID, id)
	}
	fmt.Fprint(w, ": berth\n\n")
}

// joined reads a stream to its end.
func joined(t *testing.T, s *client.TurnStream) string {
	t.Helper()
	var got []string
	for e, err := range s.Events() {
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(e)
		got = append(got, string(data))
	}
	return strings.Join(got, "\n")
}

// TestTurnIsReadOnceOverAnyCuts: connections end everywhere, also before the first event; one repeats what
// was read, one leaves something out, one tells of an error of its own, one is of another turn.
func TestTurnIsReadOnceOverAnyCuts(t *testing.T) {
	testkit.Proves(t, "C3")
	log := turnLog(20)
	var asked []string
	var cuts int
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Last-Event-ID"))
		after := 0
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			_, _ = fmt.Sscanf(id, "t1.%d", &after)
		}
		n := len(asked)
		if n == 1 {
			panic(http.ErrAbortHandler) // the prompt may have arrived
		}
		turning(w, map[bool]string{true: "", false: "t1"}[n == 2])
		switch n {
		case 2: // cut before the turn is known
			panic(http.ErrAbortHandler)
		case 5:
			after = max(0, after-2) // says some again
		case 6:
			after += 3 // leaves some out
		case 7:
			fmt.Fprint(w, `data: {"type":"error","code":"store_unavailable","message":"not now"}`+"\n\n")
			return
		case 8:
			fmt.Fprint(w, "id: t2.9\n"+`data: {"type":"text","text":"wrong"}`+"\n\n")
			return
		case 9:
			fmt.Fprint(w, "id: nonsense\n"+`data: {"type":"text","text":"wrong"}`+"\n\n")
			return
		}
		for i := after; i < min(after+3, len(log)); i++ {
			numbered(w, i+1, log[i])
		}
		fmt.Fprint(w, "id: t1.99\ndata: {\"type\":") // half an event is none
	}, client.WithAttempts(8))
	s, err := c.Conversations.Prompt(t.Context(), "c1", api.Prompt{Prompt: "hi"}, client.Queued(), client.WithRaw(), client.OnCut(func(error) { cuts++ }))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := joined(t, s), strings.Join(log, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.TurnID != "t1" || s.After() != 20 || cuts == 0 {
		t.Errorf("turn %q after %d, %d cuts", s.TurnID, s.After(), cuts)
	}
	const prompt, events = "POST /api/v1/conversations/c1/messages?queue=true&raw=true ", "GET /api/v1/conversations/c1/turns/t1/events?raw=true "
	if asked[0] != prompt || asked[1] != prompt || asked[2] != prompt || asked[3] != events+"t1.3" {
		t.Errorf("asked\n%s", strings.Join(asked, "\n"))
	}
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestPromptIsAskedOnceUnderOneKey(t *testing.T) {
	testkit.Proves(t, "C3")
	keys := map[string]int{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")]++
		if len(keys) == 1 && keys[r.Header.Get("Idempotency-Key")] < 3 {
			panic(http.ErrAbortHandler)
		}
		turning(w, "t1")
		for i, e := range turnLog(2) {
			numbered(w, i+1, e)
		}
	})
	for range 2 {
		s, err := c.Conversations.Prompt(t.Context(), "c1", api.Prompt{Prompt: "hi"}, client.InSandbox("s1"))
		if err != nil {
			t.Fatal(err)
		}
		joined(t, s)
	}
	if len(keys) != 2 || keys[""] != 0 {
		t.Errorf("keys %v; want one for each prompt", keys)
	}
}

func TestARunningTurnIsNotWaitedFor(t *testing.T) {
	var sent atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		refuse(w, api.NewProblem(api.CodeTurnRunning, "turn t0 runs"))
	})
	_, err := c.Conversations.Prompt(t.Context(), "c1", api.Prompt{Prompt: "hi"})
	if p := problemOf(t, err); p.Code != api.CodeTurnRunning || sent.Load() != 1 {
		t.Errorf("%v after %d requests", err, sent.Load())
	}
}

func TestFollowEndsWhereThereIsNothingMore(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		events int
	}{
		"finished": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }, 0},
		"resync": {func(w http.ResponseWriter, r *http.Request) {
			turning(w, "t1")
			fmt.Fprint(w, `data: {"type":"resync"}`+"\n\n")
		}, 1},
		"finished after a cut": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") == "t1.8" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			turning(w, "t1")
			numbered(w, 8, `{"type":"text","text":"x"}`)
		}, 1},
	} {
		s, err := serve(t, c.answer).Conversations.Follow(t.Context(), "c1", "t1", 7)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n := 0
		for _, err := range s.Events() {
			if n++; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != c.events {
			t.Errorf("%s: %d events, want %d", name, n, c.events)
		}
	}
}

func TestTurnThatCannotBeWatched(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) {
			refuse(w, api.NewProblem(api.CodeNotFound, "no such turn"))
		}, "no such turn"},
		"no stream": {func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, "x") }, "no stream"},
		"gone":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer from"},
		"silent":    {func(w http.ResponseWriter, r *http.Request) { turning(w, "t1") }, "broke off"},
		"full":      {func(w http.ResponseWriter, r *http.Request) { refuse(w, api.NewProblem(api.CodeQueueFull, "100 wait")) }, "100 wait"},
	} {
		s, err := serve(t, c.answer, client.WithAttempts(2)).Conversations.Follow(t.Context(), "c1", "t1", 0)
		if err == nil {
			_, err = s.Next()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		problemOf(t, err)
	}
	if _, err := serve(t, nil).Conversations.Follow(t.Context(), "..", "t1", 0); err == nil {
		t.Error("a path out of conversations was asked for")
	}
}

func TestTurnStreamEndsWithItsContextOrItsReader(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		turning(w, "t1")
		numbered(w, 1, turnLog(2)[0])
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := c.Conversations.Prompt(ctx, "c1", api.Prompt{Prompt: "hi"}, client.OnCut(func(error) { t.Error("a cut was told of") }))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Events() {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	s, err = c.Conversations.Follow(t.Context(), "c1", "t1", 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

// hushed answers with streams that say nothing, each until its request ends, and then with one that does.
type hushed struct{ asked int }

func (h *hushed) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked++
	var body io.Reader = untilDone{r.Context()}
	if h.asked == 3 {
		body = strings.NewReader("id: t1.1\ndata: {\"type\":\"turn.finished\"}\n\n")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body), Request: r}, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, context.Cause(u.ctx)
}

func TestASilentStreamIsACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := &hushed{}, time.Now()
		s, err := dial(t, "http://berth.test", client.WithTransport(h), client.WithAttempts(2)).Conversations.Follow(t.Context(), "c1", "t1", 0)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := s.Next(); err != nil || e.Type != api.EventTurnFinished {
			t.Errorf("%+v, %v", e, err)
		}
		if took := time.Since(began); h.asked != 3 || took < 90*time.Second || took > 100*time.Second {
			t.Errorf("%d connections in %s", h.asked, took)
		}
	})
}
