package cli

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
)

// talks are the conversations of a fake server. What its agent does, it reads from the first word of the
// prompt.
type talks struct {
	mu     sync.Mutex
	change chan struct{} // closed and made anew whenever something happens
	convs  []api.Conversation
	turns  map[string]*fakeTurn
	said   map[string][]api.Message
	asked  []string // prompts, with what was asked beside them
	sent   [][]api.PromptFile
	ended  []string // deletes
	usage  api.UsageReport
	query  string // of the newest request for usage
}

type fakeTurn struct {
	id, conv string
	log      []api.TurnEvent
	cancel   bool
	cuts     int // so many connections more end after two events
	gone     bool
}

func newTalks() *talks {
	return &talks{change: make(chan struct{}), turns: map[string]*fakeTurn{}, said: map[string][]api.Message{}}
}

func newTalking(t testing.TB) (*fakeServer, *talks) {
	t.Helper()
	f := newFakeServer(t)
	f.talks = newTalks()
	return f, f.talks
}

func (k *talks) happened() {
	close(k.change)
	k.change = make(chan struct{})
}

const talkVersion = "20261115T031402.123456789Z-a1b2c3"

// do is the agent at work.
func (k *talks) do(t *fakeTurn, prompt string) {
	say := func(events ...api.TurnEvent) {
		k.mu.Lock()
		defer k.mu.Unlock()
		t.log = append(t.log, events...)
		k.happened()
	}
	usage := &api.Usage{InputTokens: 1234, OutputTokens: 56, CacheReadTokens: 7000, CacheWriteTokens: 890}
	end := api.TurnEvent{Type: api.EventTurnFinished, Status: api.TurnCompleted, Usage: usage, CostUSD: 0.0123, Version: talkVersion}
	at := birth.Add(3200 * time.Millisecond)
	end.At = &at
	word, _, _ := strings.Cut(prompt, " ")
	switch word {
	case "wait":
		say(api.TurnEvent{Type: api.EventTextDelta, Text: "I wait"})
		k.until(func() bool { return t.cancel })
		end.Status, end.Version = api.TurnCancelled, ""
	case "fail":
		end.Status, end.Code, end.Message, end.Usage = api.TurnFailed, api.CodeAgentFailed, "the agent broke\x1b[2J", nil
		say(api.TurnEvent{Type: api.EventTurnError, Code: end.Code, Message: end.Message})
	case "hostile":
		bad := "\x1b]52;c;aGk=\a\x1b[2J\u202e\t"
		say(api.TurnEvent{Type: api.EventThinkingDelta, Text: "think " + bad}, api.TurnEvent{Type: api.EventText, Text: "text " + bad},
			api.TurnEvent{Type: api.EventToolCall, ID: "1" + bad, Name: "tool" + bad, Input: quoteJSON("command", "run "+bad)},
			api.TurnEvent{Type: api.EventToolResult, ID: "1" + bad, Text: "result " + bad, Error: true},
			api.TurnEvent{Type: api.EventStatus, Status: "odd" + bad, Message: bad})
		end.Warnings = []string{"warning " + bad}
	case "tools":
		say(api.TurnEvent{Type: api.EventStatus, Status: "session_started"}, api.TurnEvent{Type: api.EventStatus, Status: "retrying", Message: "it was busy"},
			api.TurnEvent{Type: api.EventThinkingDelta, Text: "hm"}, api.TurnEvent{Type: api.EventThinking, Text: "hm"},
			api.TurnEvent{Type: api.EventToolCall, ID: "1", Name: "bash", Input: quoteJSON("command", "ls -la\nls")},
			api.TurnEvent{Type: api.EventToolCall, ID: "2", Name: "task", Input: json.RawMessage(`{"n": 1}`)},
			api.TurnEvent{Type: api.EventToolCall, ID: "3", Name: "grep", Parent: "2"}, api.TurnEvent{Type: api.EventText, Text: "inner", Parent: "2"},
			api.TurnEvent{Type: api.EventToolResult, ID: "3", Text: "found", Parent: "2"}, api.TurnEvent{Type: api.EventThinking, Text: "inner", Parent: "2"},
			api.TurnEvent{Type: api.EventToolResult, ID: "1", Text: "a\nb\nc\nd\ne\n"}, api.TurnEvent{Type: api.EventToolResult, ID: "2"},
			api.TurnEvent{Type: api.EventText, Text: "One.\n"}, api.TurnEvent{Type: api.EventTextDelta, Text: "Two"},
			api.TurnEvent{Type: api.EventTextDelta, Text: " words."}, api.TurnEvent{Type: api.EventText, Text: "Two words."})
		end.Warnings = []string{"a hook failed"}
	default:
		say(api.TurnEvent{Type: api.EventTextDelta, Text: "You said: "}, api.TurnEvent{Type: api.EventTextDelta, Text: prompt + "\n"},
			api.TurnEvent{Type: api.EventText, Text: "You said: " + prompt + "\n"})
	}
	k.mu.Lock()
	if i := k.index(t.conv); i >= 0 {
		k.convs[i].Status, k.convs[i].TurnID = "idle", ""
	}
	k.mu.Unlock()
	say(end)
}

func quoteJSON(name, value string) json.RawMessage {
	data, _ := json.Marshal(map[string]string{name: value})
	return data
}

func (k *talks) until(is func() bool) {
	for {
		k.mu.Lock()
		ok, change := is(), k.change
		k.mu.Unlock()
		if ok {
			return
		}
		<-change
	}
}

func (k *talks) index(id string) int {
	return slices.IndexFunc(k.convs, func(c api.Conversation) bool { return c.ID == id })
}

// begin begins a turn.
func (k *talks) begin(conv, prompt string) *fakeTurn {
	t := &fakeTurn{id: fmt.Sprintf("turn-%d", len(k.turns)+1), conv: conv}
	if strings.HasPrefix(prompt, "cut") {
		t.cuts = 3
	}
	t.log = []api.TurnEvent{{Type: api.EventTurnStarted, TurnID: t.id, ConversationID: conv, SandboxID: "s1", At: &birth}}
	k.turns[t.id] = t
	if i := k.index(conv); i >= 0 {
		k.convs[i].Status, k.convs[i].TurnID, k.convs[i].SandboxID = "running", t.id, "s1"
	}
	go k.do(t, prompt)
	return t
}

// stream sends a turn's events behind a number.
func (k *talks) stream(w http.ResponseWriter, r *http.Request, t *fakeTurn, after int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set(api.HeaderTurnID, t.id)
	fmt.Fprint(w, ": berth\n\n")
	flush := http.NewResponseController(w).Flush
	_ = flush()
	if t.gone {
		fmt.Fprint(w, `data: {"type":"resync"}`+"\n\n")
		return
	}
	for sent := 0; ; {
		k.mu.Lock()
		log, change := t.log, k.change
		if sent >= 2 && t.cuts > 0 {
			t.cuts--
			k.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		k.mu.Unlock()
		if after < len(log) {
			data, _ := json.Marshal(log[after])
			after, sent = after+1, sent+1
			fmt.Fprintf(w, "id: %s\ndata: %s\n\n", api.EventID(t.id, int64(after)), data)
			_ = flush()
			if log[after-1].Type == api.EventTurnFinished {
				return
			}
			continue
		}
		select {
		case <-change:
		case <-r.Context().Done():
			return
		}
	}
}

// serve answers requests about conversations.
func (k *talks) serve(w http.ResponseWriter, r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/conversations")
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	switch {
	case r.URL.Path == "/api/v1/usage":
		k.query = r.URL.RawQuery
		reply(w, 200, k.usage)
		return true
	case !ok:
		return false
	case rest == "" && r.Method == http.MethodGet:
		k.mu.Lock()
		defer k.mu.Unlock()
		page(w, r, k.convs)
		return true
	case rest == "":
		k.create(w, r)
		return true
	}
	k.mu.Lock()
	i := k.index(parts[0])
	if i < 0 {
		k.mu.Unlock()
		refuse(w, api.CodeNotFound, fmt.Sprintf("there is no conversation %q", parts[0]))
		return true
	}
	if len(parts) == 4 {
		t := k.turns[parts[2]]
		k.mu.Unlock()
		k.turn(w, r, t, parts[3])
		return true
	}
	k.one(w, r, i, strings.Join(parts[1:], "/"))
	return true
}

func (k *talks) create(w http.ResponseWriter, r *http.Request) {
	var want api.CreateConversation
	_ = json.NewDecoder(r.Body).Decode(&want)
	k.mu.Lock()
	defer k.mu.Unlock()
	if want.Template == "nosuch" {
		refuse(w, api.CodeUnknownTemplate, `there is no template "nosuch"`)
		return
	}
	c := api.Conversation{ID: fmt.Sprintf("c%d", len(k.convs)+1), Title: want.Title, Template: want.Template, SandboxID: want.SandboxID, Status: "idle", CreatedAt: birth, UpdatedAt: birth}
	k.convs = slices.Insert(k.convs, 0, c)
	reply(w, 201, c)
}

func (k *talks) turn(w http.ResponseWriter, r *http.Request, t *fakeTurn, what string) {
	if what == "cancel" {
		k.mu.Lock()
		t.cancel = true
		k.happened()
		k.mu.Unlock()
		reply(w, 202, api.Turn{ID: t.id})
		return
	}
	after := 0
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		_, n, _ := api.ParseEventID(id)
		after = int(n)
	}
	k.stream(w, r, t, after)
}

// one answers for one conversation. The lock is held.
func (k *talks) one(w http.ResponseWriter, r *http.Request, i int, what string) {
	c := &k.convs[i]
	switch r.Method + " " + what {
	case "GET ":
		reply(w, 200, *c)
	case "DELETE ":
		k.ended = append(k.ended, r.URL.RequestURI())
		k.convs = slices.Delete(k.convs, i, i+1)
		w.WriteHeader(http.StatusNoContent)
	case "GET messages":
		said := slices.Clone(k.said[c.ID])
		if r.URL.Query().Get("order") == "desc" {
			slices.Reverse(said)
		}
		page(w, r, said)
	case "GET turns":
		reply(w, 200, api.List[api.Turn]{Items: []api.Turn{{ID: "t1", Status: "completed", Version: talkVersion, CreatedAt: birth}}})
	case "GET export":
		fmt.Fprintf(w, "exported as %s\n", r.URL.Query().Get("format"))
	case "POST messages":
		var want api.Prompt
		_ = json.NewDecoder(r.Body).Decode(&want)
		k.asked = append(k.asked, strings.TrimSpace(want.Prompt+" "+want.Model+" "+r.URL.RawQuery))
		k.sent = append(k.sent, want.Attachments)
		if c.TurnID != "" && r.URL.Query().Get("queue") == "" {
			refuse(w, api.CodeTurnRunning, "turn "+c.TurnID+" is running")
			break
		}
		t := k.begin(c.ID, want.Prompt)
		k.mu.Unlock()
		k.stream(w, r, t, 0)
		return
	default:
		refuse(w, api.CodeNotFound, "there is no such route")
	}
	k.mu.Unlock()
}
