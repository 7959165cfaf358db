package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// A template may list the models that prompts and agents can ask for. A refused prompt leaves nothing behind.
func TestModelsOfATemplate(t *testing.T) {
	testkit.Proves(t, "C2", "C5")
	onBoth(t, func(w *world) {
		var plan atomic.Pointer[chat.Plan]
		set := func(model string, models ...string) {
			plan.Store(&chat.Plan{Runtime: "script", MaxConcurrent: 1, Model: model, Models: models})
		}
		set("")
		r := w.serve(func(o *chat.Options) { o.Plan = func(string) (chat.Plan, error) { return *plan.Load(), nil } })
		asks := func(model string) func(*chat.PromptRequest) {
			return func(a *chat.PromptRequest) { a.Model = model }
		}
		takes := func(c store.Conversation, asked, want string) {
			w.Helper()
			turn := r.ask(c, "x", asks(asked))
			r.hear(turn, 0)
			shown := chat.Show(turn)
			if i := slices.IndexFunc(w.agents.asked, func(t agent.Turn) bool { return t.ID == turn.ID }); i < 0 || w.agents.asked[i].Model != want || shown.Model != want {
				w.Errorf("asked for %q, the agent got another model than %q; the turn has %q", asked, want, shown.Model)
			}
			for _, m := range r.settled(c) {
				if m.ID == turn.Message && m.Model != want {
					w.Errorf("the message has the model %q, want %q", m.Model, want)
				}
			}
		}
		c := r.talk()
		takes(c, "", "")
		takes(c, "any/model:1[2m]", "any/model:1[2m]")
		set("house")
		takes(c, "", "house")
		takes(c, "other", "other")
		set("house", "big", "small")
		takes(c, "", "house")
		takes(c, "house", "house")
		takes(c, "small", "small")
		_, err := r.try(c, "x", asks("other"))
		wantCode(w, err, api.CodeModelNotAllowed)
		if !strings.Contains(fmt.Sprint(err), "house, big, small") {
			w.Errorf("%v does not name the allowed models", err)
		}
		for _, bad := range []string{"--flag", "a\nb", " a", strings.Repeat("x", 201), "\xff"} {
			_, err := r.try(c, "x", asks(bad))
			wantCode(w, err, api.CodeInvalidRequest)
		}
		before := r.conversations()
		_, err = r.try(store.Conversation{ID: store.NewID()}, "x", asks("other"), func(a *chat.PromptRequest) { a.Make, a.Sandbox = true, store.NewID() })
		wantCode(w, err, api.CodeModelNotAllowed)
		if after := r.conversations(); after != before {
			w.Errorf("a refused prompt made %d conversations", after-before)
		}
		if err := w.db.Tenants().Ensure(w.Context(), acme, acme); err != nil {
			w.Fatal(err)
		}
		made, err := r.db.In(acme).Agents().Create(w.Context(), store.Agent{ID: store.NewID(), Name: "wild", Overrides: []byte(`{"model":"wild"}`)})
		if err != nil {
			w.Fatal(err)
		}
		of, _, err := r.chat.Of(r.db.In(acme), "test", "").Create(w.Context(), api.CreateConversation{AgentID: made.ID, Template: "test"})
		if err != nil {
			w.Fatal(err)
		}
		_, err = r.try(of, "x")
		wantCode(w, err, api.CodeModelNotAllowed)
		takes(of, "big", "big")
		if used, err := r.db.In(acme).UsageCounts().Usage(w.Context(), "2000-01-01", "2100-01-01", c.ID, true, 100); err != nil || len(used) != 2 {
			w.Errorf("usage is by the models that answered: %+v, %v", used, err)
		}
	})
}

// conversations is the number of the tenant's conversations.
func (r *replica) conversations() int {
	r.Helper()
	all, _, err := r.db.In(acme).Conversations(r.Context(), "", store.Page{Limit: 500})
	if err != nil {
		r.Fatal(err)
	}
	return len(all)
}
