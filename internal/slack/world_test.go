package slack_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/slack"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
	"github.com/berthdev/berth/internal/testkit/slacktest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	patience = 60 * time.Second
	tenant   = store.TenantID("acme")
)

// world is what outlives servers: Slack, a database and turns.
type world struct {
	*testing.T
	web     *slacktest.Server
	team    *slacktest.Team
	turns   *turns
	options store.Options
	db      *store.DB // nil: each replica opens its own
}

// newWorld has a Slack workspace with a channel C1 and the people U1 and U2, connected by Socket Mode.
func newWorld(t *testing.T) *world {
	return makeWorld(t, store.Options{DataDir: t.TempDir(), LeaseTTL: 10 * time.Minute})
}

func makeWorld(t *testing.T, o store.Options) *world {
	w := &world{T: t, web: slacktest.New(t), turns: newTurns(), options: o}
	w.team = w.web.AddTeam("T1")
	w.team.AddUser("U1", "ann", "ann@example.com")
	w.team.AddUser("U2", "bob", "")
	w.team.AddChannel("C1", "U1", "U2")
	if o.DatabaseURL == "" {
		w.db = w.open()
	}
	return w
}

func (w *world) open() *store.DB {
	w.Helper()
	db, err := store.Open(w.Context(), w.options)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = db.Close() })
	storetest.Unlock(w, db)
	if err := db.Tenants().Ensure(w.Context(), tenant, "Acme"); err != nil {
		w.Fatal(err)
	}
	return db
}

// replica is one server.
type replica struct {
	*slack.Service
	stop func()
}

// start starts a server. At is called at the named points.
func (w *world) start(at func(r *replica, point string)) *replica {
	w.Helper()
	db := w.db
	if db == nil {
		db = w.open()
	}
	r := &replica{}
	o := slack.Options{
		Store: db, Threads: w.turns, APIURL: w.web.APIURL(), Log: slog.New(slog.NewTextHandler(logTo{w}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		MaxFile: 1 << 20, MaxFiles: 3,
	}
	if at != nil {
		o.At = func(point, _ string) { at(r, point) }
	}
	r.Service = slack.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r.stop = cancel
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			w.Error("the service does not end")
		}
	})
	return r
}

// connect connects the workspace.
func (w *world) connect(r *replica) {
	w.Helper()
	_, err := r.Connect(w.Context(), store.SlackWorkspace{Tenant: tenant, Tokens: store.SlackTokens{Bot: w.team.BotToken, App: w.team.AppToken, Signing: w.team.SigningSecret}})
	if err != nil {
		w.Fatal(err)
	}
}

// served is a world with one server that is connected.
func served(t *testing.T) (*world, *replica) {
	w := newWorld(t)
	r := w.start(nil)
	w.connect(r)
	return w, r
}

type logTo struct{ w *world }

// Write implements io.Writer.
func (l logTo) Write(p []byte) (int, error) {
	defer func() { _ = recover() }() // the test has ended
	l.w.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// mention says something to the app in the channel.
func (w *world) mention(text string, files ...string) string {
	return w.team.Say("U1", "C1", "", "<@"+w.team.BotUser+"> "+text, files...)
}

// ours returns the app's messages in a thread.
func (w *world) ours(channel, thread string) []slacktest.Message {
	return slices.DeleteFunc(w.team.Thread(channel, thread), func(m slacktest.Message) bool { return m.BotID == "" })
}

// settled waits until a message has a reaction that says how its answer ended.
func (w *world) settled(channel, ts, reaction string) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		for _, m := range w.team.Messages(channel) {
			if m.TS == ts && len(m.Reactions[reaction]) == 1 && len(m.Reactions["eyes"]) == 0 {
				return nil
			} else if m.TS == ts {
				return fmt.Errorf("the message has the reactions %v, want %s; the thread: %s", m.Reactions, reaction, w.show(channel, ts))
			}
		}
		return fmt.Errorf("the message is not there")
	})
}

func (w *world) show(channel, thread string) string {
	var b strings.Builder
	for _, m := range w.team.Thread(channel, thread) {
		fmt.Fprintf(&b, "\n%s %q %s %v", m.User, m.Text, m.Blocks, m.Files)
	}
	return b.String()
}

// turns stands for Berth: it runs turns that outlive servers.
type turns struct {
	mu      sync.Mutex
	changed *sync.Cond
	all     map[string]*turn
	order   []string // of the prompts
	posts   int
	stopped []string
	files   map[string]string
	refuse  error // of the next prompts
}

type turn struct {
	prompt    slack.Prompt
	events    []api.TurnEvent
	cancelled bool
}

func newTurns() *turns {
	f := &turns{all: map[string]*turn{}, files: map[string]string{}}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// Post runs a prompt. Its text says what the agent does: its words choose how the turn goes.
func (f *turns) Post(_ context.Context, p slack.Prompt) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts++
	if f.refuse != nil {
		return f.refuse
	}
	if f.all[p.Turn] != nil {
		return nil
	}
	t := &turn{prompt: p}
	f.all[p.Turn] = t
	f.order = append(f.order, p.Text)
	go f.run(t)
	return nil
}

func (f *turns) run(t *turn) {
	f.add(t, api.TurnEvent{Type: api.EventTurnStarted})
	f.add(t, api.TurnEvent{Type: api.EventToolCall, ID: "1", Name: "bash", Input: []byte(`{"command":"ls -l"}`)})
	f.add(t, api.TurnEvent{Type: api.EventToolResult, ID: "1"})
	if strings.Contains(t.prompt.Text, "slow") {
		for i := range 3_000 {
			if i == 4 {
				f.add(t, api.TurnEvent{Type: api.EventTextDelta, Text: "half of "})
			}
			f.mu.Lock()
			stop := t.cancelled
			f.mu.Unlock()
			if stop {
				f.add(t, api.TurnEvent{Type: api.EventTurnFinished, Status: api.TurnCancelled})
				return
			}
			<-time.After(10 * time.Millisecond)
			if i > 150 && !strings.Contains(t.prompt.Text, "very slow") {
				break
			}
		}
	}
	end := api.TurnEvent{Type: api.EventTurnFinished, Status: api.TurnCompleted, Usage: &api.Usage{InputTokens: 10, OutputTokens: 5}}
	switch {
	case strings.Contains(t.prompt.Text, "fail"):
		end.Status, end.Code, end.Message = api.TurnFailed, api.CodeModelKeyMissing, "the model's service <refuses> the key"
	case strings.Contains(t.prompt.Text, "long"):
		f.add(t, api.TurnEvent{Type: api.EventText, Text: strings.Repeat("A paragraph of many words.\n\n", 1_500)})
	case strings.Contains(t.prompt.Text, "hostile"):
		f.add(t, api.TurnEvent{Type: api.EventText, Text: "<!channel> and [x](!here) **bold**"})
	default:
		f.add(t, api.TurnEvent{Type: api.EventText, Text: "answer to: " + t.prompt.Text})
	}
	if strings.Contains(t.prompt.Text, "artifact") {
		f.mu.Lock()
		for i := range 2 {
			path := fmt.Sprintf("output/display/%d.txt", i)
			f.files[path] = "content of " + path
			end.Artifacts = append(end.Artifacts, api.Artifact{Path: path, Name: fmt.Sprintf("%d.txt", i), Size: int64(len(f.files[path])), SHA256: path + t.prompt.Turn})
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.events = append(t.events, end)
	f.changed.Broadcast()
}

func (f *turns) add(t *turn, e api.TurnEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.events = append(t.events, e)
	f.changed.Broadcast()
}

// Events implements slack.Threads.
func (f *turns) Events(ctx context.Context, _, id string) iter.Seq2[api.TurnEvent, error] {
	return func(yield func(api.TurnEvent, error) bool) {
		stop := context.AfterFunc(ctx, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changed.Broadcast()
		})
		defer stop()
		for n := 0; ; n++ {
			f.mu.Lock()
			t := f.all[id]
			if t == nil {
				f.mu.Unlock()
				yield(api.TurnEvent{}, fault.Errorf("read turn", api.CodeNotFound, "there is no turn %s", id))
				return
			}
			for len(t.events) <= n && ctx.Err() == nil {
				f.changed.Wait()
			}
			if ctx.Err() != nil {
				f.mu.Unlock()
				yield(api.TurnEvent{}, ctx.Err())
				return
			}
			e := t.events[n]
			f.mu.Unlock()
			if !yield(e, nil) || e.Type == api.EventTurnFinished {
				return
			}
		}
	}
}

// Cancel implements slack.Threads.
func (f *turns) Cancel(_ context.Context, _, id, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.all[id]; t != nil {
		t.cancelled = true
	}
	return nil
}

// Stop implements slack.Threads.
func (f *turns) Stop(_ context.Context, t slack.Thread) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = append(f.stopped, t.Key)
	return nil
}

// Open implements slack.Threads.
func (f *turns) Open(_ context.Context, _ slack.Thread, path string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return io.NopCloser(strings.NewReader(f.files[path])), nil
}

// Show implements slack.Threads.
func (f *turns) Show(context.Context, slack.Thread) (slack.Overview, error) {
	return slack.Overview{
		Sandbox: "box", State: "running", Files: []string{"output/display/a.txt"},
		Stats: api.Stats{MessagesExchanged: 4, TotalInputTokens: 10, TotalOutputTokens: 5},
	}, nil
}

// Previews implements slack.Threads.
func (f *turns) Previews(context.Context, slack.Thread) ([]slack.Preview, error) {
	return []slack.Preview{{Port: 3000, URL: "http://3000-box.preview.localhost:7070/"}}, nil
}

// prompts returns the prompts in their order.
func (f *turns) prompts() []slack.Prompt {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []slack.Prompt
	for _, text := range f.order {
		for _, t := range f.all {
			if t.prompt.Text == text {
				all = append(all, t.prompt)
			}
		}
	}
	return all
}
