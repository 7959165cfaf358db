package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

// talks is a server whose conversations are with agents that follow their prompts to the letter.
type talks struct {
	*site
	agents *scripted
	outbox *outbox.Outbox
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	finish []string       // the turns after which hooks ran
	at     func(d string) // called then
}

func newTalks(t *testing.T, change ...func(*Options)) *talks {
	t.Helper()
	return newTalksOn(t, store.Options{DataDir: t.TempDir()}, change...)
}

// talksOnBoth runs the test over SQLite and over PostgreSQL.
func talksOnBoth(t *testing.T, test func(t *testing.T, w *talks)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newTalks(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newTalksOn(t, store.Options{DatabaseURL: storetest.Postgres(t)}))
	})
}

func newTalksOn(t *testing.T, at store.Options, change ...func(*Options)) *talks {
	t.Helper()
	w := &talks{agents: &scripted{gates: map[string]chan struct{}{}, cancelled: map[string]chan struct{}{}}}
	return w.on(newSiteOn(t, at, t.TempDir(), append([]func(*Options){w.talk}, change...)...))
}

// on runs the conversations of a server until the test ends.
func (w *talks) on(s *site) *talks {
	w.site = s
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Chat.Run(ctx) })
	s.t.Cleanup(func() { w.server.CloseClientConnections(); cancel(); wg.Wait() })
	return w
}

// talk adds conversations to a server.
func (w *talks) talk(o *Options) {
	e := o.Engine.(*testEngine).Engine
	w.outbox = outbox.New(o.Store.Outbox(), o.Log)
	o.Chat = chat.New(chat.Options{
		Store: o.Store, Engine: e, Outbox: w.outbox, Transcript: sqltranscript.New(o.Store), TranscriptInStore: true,
		Runtimes: map[string]agent.Runtime{"script": w.agents}, Poll: 20 * time.Millisecond, Hooks: w, Log: o.Log, MaxQueue: 2,
		Plan: func(name string) (chat.Plan, error) {
			return chat.Plan{Runtime: "script", MaxConcurrent: 1}, e.CheckTemplate("acme", name)
		},
		DefaultTemplate: "default", DeleteSandbox: true, Dial: w.dial,
	})
}

func (w *talks) Message(context.Context, *hook.Data) {}

func (w *talks) StreamFinish(_ context.Context, d *hook.Data) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish = append(w.finish, d.TurnID)
	if w.at != nil {
		w.at(d.TurnID)
	}
	return nil
}

func (w *talks) Drops(string, string) bool { return false }

func (w *talks) Pushes(string) bool { return false }

func (w *talks) Behind(string) bool { return false }

func (w *talks) Push(ctx context.Context, d *hook.Data, save hook.Func) error {
	return save(ctx, d)
}

func (w *talks) AfterPush(context.Context, *hook.Data) []string { return nil }

// finished are the turns that hooks ran for.
func (w *talks) finished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.finish...)
}

// scripted is a runtime whose agents say the words of their prompt, one event each. At "wait:x" they wait for
// the gate x to be opened, at "deaf:x" also when they are cancelled, "fail" makes them fail, and "json:…" is an
// event as it is.
type scripted struct {
	mu        sync.Mutex
	gates     map[string]chan struct{}
	cancelled map[string]chan struct{}
}

func (s *scripted) Name() string { return "script" }

func (s *scripted) Start(context.Context, *engine.Handle, agent.Turn) error { return nil }

func channel(of map[string]chan struct{}, name string) chan struct{} {
	if of[name] == nil {
		of[name] = make(chan struct{})
	}
	return of[name]
}

// open opens a gate for good.
func (s *scripted) open(name string) { s.close(s.gates, name) }

func (s *scripted) close(of map[string]chan struct{}, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-channel(of, name):
	default:
		close(of[name])
	}
}

func (s *scripted) Cancel(_ context.Context, _ *engine.Handle, t agent.Turn) error {
	s.close(s.cancelled, t.ID)
	return nil
}

func (s *scripted) Events(ctx context.Context, _ *engine.Handle, t agent.Turn, after agent.Cursor) iter.Seq2[agent.Step, error] {
	words := strings.Split(t.Prompt, " ")
	usage := api.Usage{InputTokens: 1, OutputTokens: int64(len(words))}
	return func(yield func(agent.Step, error) bool) {
		for i := after.Offset; i < int64(len(words)); i++ {
			event, end := s.say(ctx, t, words[i])
			if end != nil {
				end.Usage, end.Model = usage, "script-1"
				yield(agent.Step{Cursor: agent.Cursor{Offset: i + 1}, End: end}, nil)
				return
			}
			if ctx.Err() != nil || !yield(agent.Step{Events: []api.TurnEvent{event}, Cursor: agent.Cursor{Offset: i + 1}}, nil) {
				return
			}
		}
		yield(agent.Step{Cursor: agent.Cursor{Offset: int64(len(words)) + 1}, End: &agent.End{Status: api.TurnCompleted, Usage: usage, Model: "script-1"}}, nil)
	}
}

func (s *scripted) say(ctx context.Context, t agent.Turn, word string) (e api.TurnEvent, end *agent.End) {
	raw, _ := json.Marshal(map[string]string{"line": word})
	e = api.TurnEvent{Type: api.EventText, Text: word, Raw: raw}
	s.mu.Lock()
	cancelled := channel(s.cancelled, t.ID)
	gate, waits := strings.CutPrefix(word, "wait:")
	opened := channel(s.gates, gate)
	s.mu.Unlock()
	if deaf, is := strings.CutPrefix(word, "deaf:"); is {
		s.mu.Lock()
		opened, waits, cancelled = channel(s.gates, deaf), true, nil
		s.mu.Unlock()
	}
	switch {
	case waits:
		select {
		case <-opened:
		case <-cancelled:
			return e, &agent.End{Status: api.TurnCancelled}
		case <-ctx.Done():
		}
	case word == "fail":
		return e, &agent.End{Status: api.TurnFailed, Code: api.CodeAgentFailed, Message: "as requested"}
	case strings.HasPrefix(word, "json:"):
		e.Text = ""
		if err := json.Unmarshal([]byte(word[len("json:"):]), &e); err != nil {
			return e, &agent.End{Status: api.TurnFailed, Message: err.Error()}
		}
	}
	return e, nil
}

// received is one event of a turn.
type received struct {
	id string
	api.TurnEvent
}

// turnWatcher reads the stream of a turn.
type turnWatcher struct{ *watcher }

// prompt sends a prompt and watches what comes of it.
func (w *talks) prompt(path, text string, header ...string) turnWatcher {
	w.t.Helper()
	return w.follow(http.MethodPost, path, promptBody(text), header...)
}

func promptBody(text string) string { return fmt.Sprintf(`{"prompt":%s}`, quote(text)) }

// follow opens the stream of a turn.
func (w *talks) follow(method, path, body string, header ...string) turnWatcher {
	w.t.Helper()
	s := w.watch(method, path, body, header...)
	if s.res.StatusCode != http.StatusOK || s.res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("no stream: %d %s", s.res.StatusCode, s.answer().body)
	}
	return turnWatcher{s}
}

func (s turnWatcher) turn() string { return s.res.Header.Get(api.HeaderTurnID) }

func (s turnWatcher) event() (e received, err error) {
	s.t.Helper()
	id, data, ok := s.frame()
	if !ok {
		return e, errors.Join(errors.New("the stream ended"), s.lines.Err())
	}
	e.id = id
	checkEvent(s.t, api.TurnEvents, data)
	if err := json.Unmarshal([]byte(data), &e.TurnEvent); err != nil {
		s.t.Fatalf("event %q: %v", data, err)
	}
	return e, nil
}

// upTo reads until an event has the text.
func (s turnWatcher) upTo(text string) (events []received) {
	s.t.Helper()
	for {
		e, err := s.event()
		if err != nil {
			s.t.Fatalf("before %q, after %+v: %v", text, events, err)
		}
		if events = append(events, e); e.Text == text {
			return events
		}
	}
}

// rest reads to the end, which is the turn's.
func (s turnWatcher) rest() (events []received) {
	s.t.Helper()
	for {
		e, err := s.event()
		if err != nil {
			s.t.Fatalf("after %+v: %v", events, err)
		}
		if events = append(events, e); e.Type == api.EventTurnFinished {
			if _, _, more := s.frame(); more {
				s.t.Fatal("something comes after the end")
			}
			return events
		}
	}
}

// said are the texts of events.
func said(events []received) string {
	var words []string
	for _, e := range events {
		if e.Type == api.EventText {
			words = append(words, e.Text)
		}
	}
	return strings.Join(words, " ")
}

// new makes a conversation and returns its path.
func (w *talks) new(body string) (string, api.Conversation) {
	w.t.Helper()
	c := into[api.Conversation](w.post(conversationsPath, body).is(http.StatusCreated))
	return conversationsPath + "/" + c.ID, c
}
