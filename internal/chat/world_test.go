package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var migrated = pgtest.NewTemplate(func(ctx context.Context, url string) error {
	_, err := store.Migrate(ctx, store.Options{DatabaseURL: url})
	return err
})

const patience = 2 * time.Minute

// world is what outlives servers: a database, sandboxes at a fake driver, and agents that go on.
type world struct {
	*testing.T
	db     *store.DB
	logger *slog.Logger
	dir    string
	agents *agents
	saves  *saves
	local  bool // sandboxes are pinned to the machine of the server that made them

	mu     sync.Mutex
	hooked []string // what hooks ran for
}

// replica is one server's part.
type replica struct {
	*world
	chat   *chat.Service
	engine *engine.Engine
	driver driver.Driver
	end    func()
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, test func(w *world)) { leased(t, store.DefaultLeaseTTL, test) }

// crashing is onBoth with short leases, so that what a dead server held is soon taken over.
func crashing(t *testing.T, test func(w *world)) { leased(t, 2*time.Second, test) }

func leased(t *testing.T, ttl time.Duration, test func(w *world)) {
	for name, opts := range map[string]store.Options{
		"sqlite": {DataDir: t.TempDir()}, "postgres": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "postgres" {
				opts.DatabaseURL = migrated.New(t).URL
			}
			opts.LeaseTTL = ttl
			test(newWorld(t, opts))
		})
	}
}

func newWorld(t *testing.T, opts store.Options) *world {
	db, err := store.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Unlock(t, db)
	t.Cleanup(func() { _ = db.Close() })
	return &world{T: t, db: db, logger: slog.New(slog.DiscardHandler), dir: t.TempDir(), agents: &agents{runs: map[string]*run{}, starts: map[string]int{}}, saves: newSaves()}
}

// serve starts a server's part. It is killed with the test, if not before.
func (w *world) serve(change ...func(*chat.Options)) *replica {
	w.Helper()
	d, err := fake.Open(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	r := &replica{world: w, driver: d}
	if w.local {
		r.driver = localDriver{d.(*fake.Driver)}
	}
	out := outbox.New(w.db.Outbox(), w.logger)
	o := chat.Options{
		Store: w.db, Outbox: out, Transcript: sqltranscript.New(w.db), TranscriptInStore: true,
		Runtimes: map[string]agent.Runtime{"script": w.agents}, Poll: 20 * time.Millisecond,
		Plan:  func(string) (chat.Plan, error) { return chat.Plan{Runtime: "script", MaxConcurrent: 1}, nil },
		Hooks: hooks{w}, Saver: w.saves, Host: "here", DefaultTemplate: "test", DeleteSandbox: true, Log: w.logger,
		Price: func(model string, u api.Usage) float64 { return float64(u.OutputTokens) / 1000 },
	}
	for _, f := range change {
		f(&o)
	}
	r.engine = engine.New(engine.Options{
		Store: engine.OnDB(w.db), Drivers: map[string]driver.Driver{"fake": r.driver}, Defaults: sandbox.Spec{Template: "test", Driver: "fake", Profile: "lite"},
		LeaseTTL: w.db.LeaseTTL(), Host: o.Host,
	})
	o.Engine = r.engine
	r.chat = chat.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.chat.Run(ctx) })
	wg.Go(func() { out.Run(ctx) })
	r.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	w.Cleanup(r.end)
	return r
}

// die is for At: the server is gone from this point on, without another word.
func (r *replica) die() {
	r.chat.Abandon()
	go r.end()
	runtime.Goexit()
}

// localDriver is a driver whose sandboxes are on one machine.
type localDriver struct{ *fake.Driver }

func (localDriver) Local() {}

// dies starts a server's part that dies at a point. died waits until it has.
func (w *world) dies(at string, change ...func(*chat.Options)) (r *replica, died func()) {
	w.Helper()
	var dead atomic.Bool
	r = w.serve(append(change, func(o *chat.Options) {
		o.At = func(point, _ string) {
			if point == at && dead.CompareAndSwap(false, true) {
				r.die()
			}
		}
	})...)
	return r, func() {
		w.Helper()
		testkit.Eventually(w, patience, func() error {
			if !dead.Load() {
				return fmt.Errorf("the window %q is not hit", at)
			}
			return nil
		})
	}
}

// hooks count what they ran for.
type hooks struct{ w *world }

func (h hooks) Message(_ context.Context, d *hook.Data) { h.ran("message " + d.Message.ID) }
func (h hooks) StreamFinish(_ context.Context, d *hook.Data) []string {
	h.ran("finish " + d.TurnID)
	return []string{"a warning"}
}
func (h hooks) Drops(string, string) bool { return false }

func (h hooks) Pushes(string) bool { return true }
func (h hooks) Behind(string) bool { return true }
func (h hooks) Push(ctx context.Context, d *hook.Data, save hook.Func) error {
	return save(ctx, d)
}
func (h hooks) AfterPush(_ context.Context, d *hook.Data) []string {
	h.ran("after " + d.TurnID + " " + d.Version + " " + d.Message.ID)
	return nil
}
func (h hooks) ran(what string) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.hooked = append(h.w.hooked, what)
}

// agents is a runtime whose agents follow the prompt: words, each said as one event, but for
//
//	wait:NAME   go on when the test lets NAME go
//	again       end as if the sandbox had been lost
//	nosession   end as if the session were gone, unless it begins
//	fail        end with an error
//	flood:N     say N times a kilobyte
//
// They go on whatever becomes of servers, as agents in sandboxes do.
type agents struct {
	mu     sync.Mutex
	runs   map[string]*run
	starts map[string]int // by turn
	gates  sync.Map
	asked  []agent.Turn
}

// run is one attempt of one turn, and its spool.
type run struct {
	mu        sync.Mutex
	said      []string
	end       *agent.End
	more      chan struct{}
	cancelled chan struct{}
	once      sync.Once
}

func (a *agents) Name() string { return "script" }

func key(t agent.Turn) string { return fmt.Sprintf("%s-%d", t.ID, t.Attempt) }

func (a *agents) Start(_ context.Context, _ *engine.Handle, t agent.Turn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[key(t)] != nil {
		return nil
	}
	r := &run{more: make(chan struct{}), cancelled: make(chan struct{})}
	a.runs[key(t)] = r
	a.starts[t.ID]++
	a.asked = append(a.asked, t)
	go a.work(r, t)
	return nil
}

// absurd is what no agent can have used.
var absurd = api.Usage{InputTokens: math.MaxInt64, OutputTokens: 1 << 50, CacheReadTokens: -1}

func (a *agents) work(r *run, t agent.Turn) {
	usage := api.Usage{InputTokens: int64(len(t.Prompt))}
	for _, word := range strings.Fields(t.Prompt) {
		verb, arg, _ := strings.Cut(word, ":")
		switch {
		case verb == "wait":
			gate, _ := a.gates.LoadOrStore(arg, make(chan struct{}))
			select {
			case <-gate.(chan struct{}):
			case <-r.cancelled:
				r.finish(agent.End{Status: api.TurnCancelled, Usage: usage})
				return
			}
		case verb == "again" && t.Attempt == 1, verb == "always":
			r.finish(agent.End{Status: api.TurnInterrupted, Code: api.CodeTurnInterrupted, Message: "lost", Again: true})
			return
		case verb == "nosession" && t.Session.Resume:
			r.finish(agent.End{Status: api.TurnFailed, NoSession: true})
			return
		case verb == "fail":
			r.finish(agent.End{Status: api.TurnFailed, Code: api.CodeAgentFailed, Message: "no", Usage: usage})
			return
		case verb == "lie":
			r.say(word)
			r.finish(agent.End{Status: api.TurnCompleted, Usage: absurd, Model: "script-1", CostUSD: 1e15})
			return
		case verb == "flood":
			for range 2000 {
				r.say(strings.Repeat("x", 1024))
			}
			select {
			case <-r.cancelled:
			case <-time.After(patience):
			}
			r.finish(agent.End{Status: api.TurnCancelled, Usage: usage})
			return
		default:
			r.say(word)
		}
		usage.OutputTokens++
	}
	r.finish(agent.End{Status: api.TurnCompleted, Usage: usage, Model: "script-1"})
}

func (r *run) say(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, word)
	close(r.more)
	r.more = make(chan struct{})
}

func (r *run) finish(e agent.End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = &e
	close(r.more)
	r.more = make(chan struct{})
}

// Events reads the spool from a cursor: how many words were read. Its state says so again, and is checked.
func (a *agents) Events(ctx context.Context, _ *engine.Handle, t agent.Turn, after agent.Cursor) iter.Seq2[agent.Step, error] {
	return func(yield func(agent.Step, error) bool) {
		a.mu.Lock()
		r := a.runs[key(t)]
		a.mu.Unlock()
		if r == nil {
			yield(agent.Step{}, guest.ErrNoProcess)
			return
		}
		at := after.Offset
		if at > 0 && string(after.State) != fmt.Sprint(at) {
			yield(agent.Step{}, fmt.Errorf("the state at %d is %s", at, after.State))
			return
		}
		for {
			r.mu.Lock()
			said, end, more := r.said, r.end, r.more
			r.mu.Unlock()
			if at < int64(len(said)) {
				n := min(at+3, int64(len(said)))
				step := agent.Step{Cursor: agent.Cursor{Offset: n, State: json.RawMessage(fmt.Sprint(n))}}
				for _, word := range said[at:n] {
					if used := absurd; word == "lie" {
						step.Events = append(step.Events, api.TurnEvent{Type: api.EventUsage, Usage: &used, CostUSD: 1e15})
						continue
					}
					step.Events = append(step.Events, api.TurnEvent{Type: api.EventText, Text: word, Raw: json.RawMessage(`{"a":"\n"}`)})
				}
				at = n
				if !yield(step, nil) {
					return
				}
				continue
			}
			if end != nil {
				e := *end
				yield(agent.Step{Cursor: agent.Cursor{Offset: at, State: json.RawMessage(fmt.Sprint(at))}, End: &e}, nil)
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (a *agents) Cancel(_ context.Context, _ *engine.Handle, t agent.Turn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.runs[key(t)]; r != nil {
		r.once.Do(func() { close(r.cancelled) })
	}
	return nil
}

// let lets agents go on that wait for a name.
func (a *agents) let(name string) {
	gate, _ := a.gates.LoadOrStore(name, make(chan struct{}))
	select {
	case <-gate.(chan struct{}):
	default:
		close(gate.(chan struct{}))
	}
}

const acme = "acme"

// talk makes a conversation.
func (r *replica) talk() store.Conversation {
	r.Helper()
	c, _, err := r.chat.Of(r.db.In(acme), "test", "").Create(r.Context(), api.CreateConversation{})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *replica) ask(c store.Conversation, prompt string, change ...func(*chat.PromptRequest)) store.Turn {
	r.Helper()
	t, err := r.try(c, prompt, change...)
	if err != nil {
		r.Fatal(err)
	}
	return t
}

func (r *replica) try(c store.Conversation, prompt string, change ...func(*chat.PromptRequest)) (store.Turn, error) {
	a := chat.PromptRequest{Conversation: c.ID, Prompt: api.Prompt{Prompt: prompt}, TurnID: store.NewID()}
	for _, f := range change {
		f(&a)
	}
	return r.chat.Of(r.db.In(acme), "test", "").Prompt(r.Context(), a)
}

// reaches waits until the turn has so many events.
func (r *replica) reaches(t store.Turn, seq int64) {
	r.Helper()
	testkit.Eventually(r, patience, func() error {
		if got, err := r.db.TurnRuns().ReadLog(r.Context(), t.ID, seq-1, 1); err != nil || len(got) == 0 {
			return fmt.Errorf("the turn has no event %d, %v", seq, err)
		}
		return nil
	})
}

func queued(a *chat.PromptRequest) { a.Queue = true }

// hear reads a turn's events behind a number to their end, and checks that none is missing.
func (r *replica) hear(t store.Turn, after int64) (events []api.TurnEvent) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for e, err := range r.chat.Events(ctx, t, after) {
		if err != nil {
			r.Fatal(err)
		}
		if after++; e.Seq != after {
			r.Fatalf("event %d came after %d", e.Seq, after-1)
		}
		events = append(events, decoded(r, e.Data))
	}
	if len(events) > 0 && events[len(events)-1].Type != api.EventTurnFinished {
		r.Fatalf("the events end with %+v: %v", events[len(events)-1], ctx.Err())
	}
	return events
}

func decoded(t testing.TB, data []byte) (e api.TurnEvent) {
	t.Helper()
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return e
}

// text is what was said.
func text(events []api.TurnEvent) string {
	var words []string
	for _, e := range events {
		if e.Type == api.EventText {
			words = append(words, e.Text)
		}
	}
	return strings.Join(words, " ")
}

func statuses(events []api.TurnEvent) (all []string) {
	for _, e := range events {
		if e.Type == api.EventStatus {
			all = append(all, e.Status)
		}
	}
	return all
}

func last(events []api.TurnEvent) api.TurnEvent { return events[len(events)-1] }

// settled checks what must be true of a conversation in which nothing runs: its stats are the sum over its
// messages, and hooks ran once for each message and each turn.
func (r *replica) settled(c store.Conversation) []api.Message {
	r.Helper()
	testkit.Eventually(r, time.Minute, func() error {
		if n, why, err := r.db.In(acme).Outgoing().Count(r.Context(), c.ID); n > 0 || err != nil {
			return fmt.Errorf("%d messages are not stored yet: %q, %w", n, why, err)
		}
		return nil
	})
	mine := r.chat.Of(r.db.In(acme), "test", "")
	messages, _, err := mine.Messages(r.Context(), c.ID, transcript.Page{Limit: 500})
	if err != nil {
		r.Fatal(err)
	}
	got, err := mine.Get(r.Context(), c.ID)
	if err != nil {
		r.Fatal(err)
	}
	var sum store.Totals
	for _, m := range messages {
		sum = sum.Add(store.TotalsOf(m))
	}
	if got.Stats != sum {
		r.Errorf("the stats are %+v, the messages add up to %+v", got.Stats, sum)
	}
	return messages
}

// times is how often hooks ran for something.
func (w *world) times(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hooked {
		if h == what {
			n++
		}
	}
	return n
}

func wantCode(t testing.TB, err error, code api.Code) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("the error is %v, want %s", err, code)
	}
}
