package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/internal/chat"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

// talk is conversations on a real database, with sandboxes at a fake driver and an agent that says "ok".
type talk struct {
	*testing.T
	db       *store.DB
	engine   *engine.Engine
	svc      *chat.Service
	messages *faulty
	asked    chan agent.Turn
}

// faulty is a message store that can be made to fail. As it is not the database, messages are put and
// counted apart.
type faulty struct {
	transcript.Store
	mu   sync.Mutex
	fail error
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *faulty) Put(ctx context.Context, tenant string, m api.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	return f.Store.Put(ctx, tenant, m)
}

// templates knows two.
type templates struct{ engine.Templates }

func (templates) Names() []string { return []string{"other", "test"} }

func (t templates) Allows(_, name string) bool { return slices.Contains(t.Names(), name) }
func (templates) Spec(name string) sandbox.Spec {
	return sandbox.Spec{Template: name, Driver: "fake", Profile: "lite"}
}
func (templates) Prepare(sandbox.Sandbox, *driver.Spec) error                    { return nil }
func (templates) Env(context.Context, string, string) (map[string]string, error) { return nil, nil }
func (templates) User(string) string                                             { return "" }

func newTalk(t *testing.T) *talk {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Unlock(t, db)
	d, err := fake.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &talk{T: t, db: db, messages: &faulty{Store: sqltranscript.New(db)}, asked: make(chan agent.Turn, 100)}
	w.engine = engine.New(engine.Options{
		Store: engine.OnDB(db), Drivers: map[string]driver.Driver{"fake": d}, Templates: templates{},
		Defaults: sandbox.Spec{Template: "test", Driver: "fake", Profile: "lite"}, LeaseTTL: db.LeaseTTL(),
	})
	out := outbox.New(db.Outbox(), slog.New(slog.DiscardHandler))
	w.svc = chat.New(chat.Options{
		Store: db, Engine: w.engine, Outbox: out, Transcript: w.messages, Runtimes: map[string]agent.Runtime{"ok": w},
		Plan:            func(string) (chat.Plan, error) { return chat.Plan{Runtime: "ok", MaxConcurrent: 1}, nil },
		DefaultTemplate: "test", DeleteSandbox: true,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.svc.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = db.Close()
	})
	return w
}

func (w *talk) mine() chat.Conversations { return w.svc.Of(w.db.In("acme"), "test", "ann") }

// The agent.
func (w *talk) Name() string                                             { return "ok" }
func (w *talk) Cancel(context.Context, *engine.Handle, agent.Turn) error { return nil }
func (w *talk) Start(_ context.Context, _ *engine.Handle, t agent.Turn) error {
	w.asked <- t
	return nil
}
func (w *talk) Events(context.Context, *engine.Handle, agent.Turn, agent.Cursor) iter.Seq2[agent.Step, error] {
	return func(yield func(agent.Step, error) bool) {
		yield(agent.Step{
			Events: []api.TurnEvent{{Type: api.EventText, Text: "ok"}},
			End:    &agent.End{Status: api.TurnCompleted, Usage: api.Usage{InputTokens: 2, OutputTokens: 1}, Model: "m", CostUSD: 0.5},
		}, nil)
	}
}

func (w *talk) create(want api.CreateConversation) store.Conversation {
	w.Helper()
	c, _, err := w.mine().Create(w.Context(), want)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *talk) ask(a chat.PromptRequest) error {
	w.Helper()
	a.TurnID, a.Prompt.Prompt = store.NewID(), "hello"
	t, err := w.mine().Prompt(w.Context(), a)
	if err != nil {
		return err
	}
	for _, err := range w.svc.Events(w.Context(), t, 0) {
		if err != nil {
			w.Fatal(err)
		}
	}
	return nil
}

func (w *talk) refused(err error, code api.Code) {
	w.Helper()
	if err == nil || fault.CodeOf(err) != code {
		w.Errorf("the error is %v, want %s", err, code)
	}
}

func TestConversationsAreMadeOnceAndAgree(t *testing.T) {
	testkit.Proves(t, "C1", "C11")
	w := newTalk(t)
	agentID := w.agent(`{"model":"big","profile":"standard","env":{"A":"1"}}`)
	id := store.NewID()
	c := w.create(api.CreateConversation{ID: strings.ToUpper(id), AgentID: agentID, Title: "talk", Metadata: map[string]string{"k": "v"}})
	if c.ID != id || c.Template != "other" || c.Account != "ann" || c.Tenant != "acme" {
		t.Errorf("made %+v", c)
	}
	if again, created, err := w.mine().Create(t.Context(), api.CreateConversation{ID: id, AgentID: agentID}); err != nil || created || again.ID != id {
		t.Errorf("again: %+v, %v, %v", again, created, err)
	}
	bob, err := w.db.In("acme").Accounts().Create(t.Context(), store.Account{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		api.CreateConversation
		code api.Code
	}{
		"unknown account":  {api.CreateConversation{AccountID: store.NewID()}, api.CodeNotFound},
		"another template": {api.CreateConversation{ID: id, Template: "test"}, api.CodeSpecMismatch},
		"another account":  {api.CreateConversation{ID: id, AccountID: bob.ID}, api.CodeSpecMismatch},
		"unknown template": {api.CreateConversation{Template: "none such"}, api.CodeUnknownTemplate},
		"unknown agent":    {api.CreateConversation{AgentID: store.NewID()}, api.CodeUnknownAgent},
		"agent, template":  {api.CreateConversation{AgentID: store.NewID(), Template: "test"}, api.CodeUnknownAgent},
		"no id":            {api.CreateConversation{ID: "x"}, api.CodeInvalidID},
		"no sandbox id":    {api.CreateConversation{SandboxID: "x"}, api.CodeInvalidID},
		"bad metadata":     {api.CreateConversation{Metadata: map[string]string{"": strings.Repeat("x", 1<<20)}}, api.CodeInvalidRequest},
	} {
		_, _, err := w.mine().Create(t.Context(), want.CreateConversation)
		if err == nil || fault.CodeOf(err) != want.code {
			t.Errorf("%s: %v, want %s", name, err, want.code)
		}
	}
	if err := w.ask(chat.PromptRequest{Conversation: id}); err != nil {
		t.Fatal(err)
	}
	if asked := <-w.asked; asked.Model != "big" {
		t.Errorf("the agent was asked with the model %q", asked.Model)
	}
	c, s, created, err := w.mine().Ensure(t.Context(), id)
	if err != nil || created || s.ID != c.Sandbox || s.Spec.Profile != "standard" || s.Spec.Env["A"] != "1" || s.Owner.Kind != sandbox.OwnerConversation {
		t.Errorf("the sandbox is %+v, %v, %v", s, created, err)
	}
	_, err = w.svc.Of(w.db.In("other"), "test", "").Get(t.Context(), id)
	w.refused(err, api.CodeNotFound)
	_, _, _, err = w.mine().Ensure(t.Context(), store.NewID())
	w.refused(err, api.CodeNotFound)
}

func (w *talk) agent(overrides string) string {
	w.Helper()
	if err := w.db.Tenants().Ensure(w.Context(), "acme", "acme"); err != nil {
		w.Fatal(err)
	}
	a, err := w.db.In("acme").Agents().Create(w.Context(), store.Agent{Template: "other", Overrides: json.RawMessage(overrides)})
	if err != nil {
		w.Fatal(err)
	}
	return a.ID
}

func TestOverridesThatCannotBeRead(t *testing.T) {
	w := newTalk(t)
	c := w.create(api.CreateConversation{AgentID: w.agent(`{"env":"x"}`)})
	w.refused(w.ask(chat.PromptRequest{Conversation: c.ID}), api.CodeInvalidRequest)
	_, _, _, err := w.mine().Ensure(t.Context(), c.ID)
	w.refused(err, api.CodeInvalidRequest)
}

func TestSandboxOfAConversation(t *testing.T) {
	testkit.Proves(t, "C2", "C10")
	w := newTalk(t)
	// Both ids may be new; both are made under them.
	id, box := store.NewID(), store.NewID()
	if err := w.ask(chat.PromptRequest{Conversation: id, Sandbox: box, Make: true}); err != nil {
		t.Fatal(err)
	}
	c, err := w.mine().Get(t.Context(), id)
	if err != nil || c.Sandbox != box || !c.OwnSandbox {
		t.Fatalf("%+v, %v", c, err)
	}
	w.refused(w.ask(chat.PromptRequest{Conversation: id, Sandbox: store.NewID()}), api.CodeSandboxMismatch)
	w.refused(w.ask(chat.PromptRequest{Conversation: store.NewID()}), api.CodeNotFound)
	w.refused(w.ask(chat.PromptRequest{Conversation: "x"}), api.CodeInvalidID)
	_, _, err = w.mine().Create(t.Context(), api.CreateConversation{ID: id, SandboxID: store.NewID()})
	w.refused(err, api.CodeSandboxMismatch)
	// What another tenant has does not exist.
	_, err = w.svc.Of(w.db.In("other"), "test", "").Prompt(t.Context(), chat.PromptRequest{Conversation: store.NewID(), Sandbox: box, Make: true, Prompt: api.Prompt{Prompt: "hi"}, TurnID: store.NewID()})
	w.refused(err, api.CodeNotFound)
	// A sandbox that was deleted is followed by another one, its own alone.
	linked := w.create(api.CreateConversation{SandboxID: box})
	if linked.Template != c.Template || linked.OwnSandbox {
		t.Errorf("the linked one is %+v", linked)
	}
	if _, err := w.engine.Delete(t.Context(), "acme", box, "test", true); err != nil {
		t.Fatal(err)
	}
	w.refused(w.ask(chat.PromptRequest{Conversation: linked.ID}), api.CodeDeleted)
	if err := w.ask(chat.PromptRequest{Conversation: id}); err != nil {
		t.Fatal(err)
	}
	if c, _ = w.mine().Get(t.Context(), id); c.Sandbox == box || c.Sandbox == "" {
		t.Errorf("it works in %q", c.Sandbox)
	}
	// Older callers name only the sandbox. A refused request makes no conversation.
	for code, bad := range map[api.Code]api.Prompt{
		api.CodeInvalidRequest: {Prompt: " "}, api.CodeSpecMismatch: {Prompt: "hi", Template: "other"}, api.CodeUnknownTemplate: {Prompt: "hi", Template: "none"},
	} {
		_, err := w.mine().Prompt(t.Context(), chat.PromptRequest{Sandbox: c.Sandbox, Default: true, Prompt: bad, TurnID: store.NewID()})
		w.refused(err, code)
	}
	if _, err := w.db.In("acme").DefaultConversation(t.Context(), c.Sandbox); fault.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a prompt that was refused made a conversation: %v", err)
	}
	if err := w.ask(chat.PromptRequest{Sandbox: c.Sandbox, Default: true}); err != nil {
		t.Fatal(err)
	}
	def, err := w.db.In("acme").DefaultConversation(t.Context(), c.Sandbox)
	if err != nil || !def.Default || def.Sandbox != c.Sandbox {
		t.Errorf("%+v, %v", def, err)
	}
	if err := w.ask(chat.PromptRequest{Sandbox: c.Sandbox, Default: true}); err != nil {
		t.Fatal(err)
	}
	if again, err := w.db.In("acme").DefaultConversation(t.Context(), c.Sandbox); err != nil || again.ID != def.ID {
		t.Errorf("%+v, %v", again, err)
	}
	w.refused(w.ask(chat.PromptRequest{Sandbox: store.NewID(), Default: true}), api.CodeNotFound)
}

// Messages that the message store does not take are kept, and counted once it does.
func TestMessagesSurviveAnOutage(t *testing.T) {
	testkit.Proves(t, "C5", "C7", "H5")
	w := newTalk(t)
	c := w.create(api.CreateConversation{})
	w.messages.set(errors.New("the store is away"))
	if err := w.ask(chat.PromptRequest{Conversation: c.ID}); err != nil {
		t.Fatal(err)
	}
	got, err := w.mine().Get(t.Context(), c.ID)
	if err != nil || got.Stats.Messages != 0 {
		t.Errorf("%+v, %v", got.Stats, err)
	}
	n, why, err := w.db.In("acme").Outgoing().Count(t.Context(), c.ID)
	if err != nil || n != 2 || !strings.Contains(why, "away") {
		t.Errorf("%d wait, %q, %v", n, why, err)
	}
	checked, err := chat.Check(t.Context(), w.db, w.messages)
	if err != nil || len(checked.Problems) != 0 || checked.Undelivered != 2 {
		t.Errorf("%+v, %v", checked, err)
	}
	w.messages.set(nil)
	messages, next, err := w.mine().Messages(t.Context(), c.ID, transcript.Page{})
	if err != nil || next != "" || len(messages) != 2 || messages[1].Text() != "ok" {
		t.Fatalf("%+v, %q, %v", messages, next, err)
	}
	one, err := w.mine().Message(t.Context(), c.ID, messages[0].ID)
	if err != nil || one.Role != api.RoleUser {
		t.Errorf("%+v, %v", one, err)
	}
	_, err = w.mine().Message(t.Context(), c.ID, store.NewID())
	w.refused(err, api.CodeNotFound)
	_, err = w.mine().Message(t.Context(), store.NewID(), one.ID)
	w.refused(err, api.CodeNotFound)
	_, _, err = w.mine().Messages(t.Context(), store.NewID(), transcript.Page{})
	w.refused(err, api.CodeNotFound)
	if got, _ = w.mine().Get(t.Context(), c.ID); got.Stats != (store.Totals{Messages: 2, Input: 2, Output: 1, CostNanos: 500_000_000}) {
		t.Errorf("the stats are %+v", got.Stats)
	}
	checked, err = chat.Check(t.Context(), w.db, w.messages)
	if err != nil || len(checked.Problems) != 0 || checked.Messages != 2 || checked.Conversations != 1 {
		t.Errorf("%+v, %v", checked, err)
	}
	// An uncounted message is found.
	if err := w.messages.Put(t.Context(), "acme", api.Message{ID: store.NewID(), ConversationID: c.ID, Role: api.RoleUser, Content: []api.Block{}}); err != nil {
		t.Fatal(err)
	}
	if checked, err = chat.Check(t.Context(), w.db, w.messages); err != nil || len(checked.Problems) != 1 {
		t.Errorf("%+v, %v", checked, err)
	}
}

func TestDeletedConversationTakesItsMessages(t *testing.T) {
	testkit.Proves(t, "O7")
	w := newTalk(t)
	c := w.create(api.CreateConversation{})
	if err := w.ask(chat.PromptRequest{Conversation: c.ID}); err != nil {
		t.Fatal(err)
	}
	c, _ = w.mine().Get(t.Context(), c.ID)
	keep := false
	if err := w.mine().Delete(t.Context(), c.ID, chat.Deletion{Sandbox: &keep}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.In("acme").ByID(t.Context(), c.Sandbox); err != nil {
		t.Errorf("its sandbox is gone, and was to be kept: %v", err)
	}
	if left, _, err := w.messages.List(t.Context(), "acme", c.ID, transcript.Page{}); err != nil || len(left) != 0 {
		t.Errorf("%d messages are left, %v", len(left), err)
	}
	w.refused(w.mine().Delete(t.Context(), c.ID, chat.Deletion{}), api.CodeDeleted)
	// One that never ran, and one whose sandbox is gone already.
	never := w.create(api.CreateConversation{SandboxID: store.NewID()})
	if err := w.mine().Delete(t.Context(), never.ID, chat.Deletion{}); err != nil {
		t.Error(err)
	}
	gone := w.create(api.CreateConversation{})
	if err := w.ask(chat.PromptRequest{Conversation: gone.ID}); err != nil {
		t.Fatal(err)
	}
	gone, _ = w.mine().Get(t.Context(), gone.ID)
	if err := w.mine().Delete(t.Context(), gone.ID, chat.Deletion{SkipSave: true}); err != nil {
		t.Error(err)
	}
	if _, err := w.db.In("acme").ByID(t.Context(), gone.Sandbox); fault.CodeOf(err) != api.CodeDeleted {
		t.Errorf("its sandbox is %v", err)
	}
}

// What cannot be read is given up, and holds up nothing else.
func TestWordsOfTheOutboxThatAreNone(t *testing.T) {
	w := newTalk(t)
	c := w.create(api.CreateConversation{})
	for _, kind := range []string{store.OutboxMessage, "end_sandbox"} {
		if err := w.db.In("acme").Outgoing().Enqueue(t.Context(), store.Message{Kind: kind, Ref: c.ID, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ask(chat.PromptRequest{Conversation: c.ID}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.mine().Get(t.Context(), c.ID); err != nil || got.Stats.Messages != 2 {
		t.Errorf("%+v, %v", got.Stats, err)
	}
	if n, _, err := w.db.In("acme").Outgoing().Count(t.Context(), c.ID); err != nil || n != 0 {
		t.Errorf("%d wait, %v", n, err)
	}
}
