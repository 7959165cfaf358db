package hook_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// A command sets metadata and stats by a JSON object on its standard output, in every phase. A refused one sets
// nothing, and the hook has failed.
func TestCommandsAnswer(t *testing.T) {
	testkit.Proves(t, "H1")
	for name, c := range map[string]struct {
		script, fails string
		metadata      map[string]string
		stats         map[string]float64
	}{
		"both":      {script: `echo '{"metadata": {"branch": "main"}, "stats": {"tests": 3}}'`, metadata: map[string]string{"branch": "main"}, stats: map[string]float64{"tests": 3}},
		"last line": {script: `echo installing; echo '{"stats":{"tests":1.5}}'`, stats: map[string]float64{"tests": 1.5}},
		"pretty":    {script: `printf '{\n  "metadata": {\n    "a": "b"\n  }\n}\n'`, metadata: map[string]string{"a": "b"}},
		"on stderr": {script: `echo '{"metadata": {"a": "b"}}' >&2`},
		"other":     {script: `echo '{"name": "x"}'`},
		"text":      {script: `echo '{metadata}'`},
		"a total":   {script: `echo '{"metadata": {"a": "b"}, "stats": {"total_cost_usd": 0}}'`, fails: "counted by Berth"},
		"reserved":  {script: `echo '{"metadata": {"a": "b", "total_input_tokens": "0"}}'`, fails: "reserved for Berth"},
		"ours":      {script: `echo '{"metadata": {"Berth.host": "x"}}'`, fails: "reserved for Berth"},
		"nested":    {script: `echo '{"metadata": {"a": {"b": "c"}}}'`, fails: "not an object of strings"},
		"no number": {script: `echo '{"stats": {"a": "b"}}'`, fails: "not an object of numbers"},
		"large":     {script: `v=$(head -c 40000 /dev/zero | tr '\0' x); printf '{"metadata": {"a": "%s"}}' $v`, fails: "at most"},
		"failed":    {script: `echo '{"metadata": {"a": "b"}}'; exit 1`, fails: "exited with 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, j := runner(shell(hook.OnStreamFinish, c.script))
			inBox(t, r)
			d := someData()
			warnings := strings.Join(r.StreamFinish(t.Context(), d), ";")
			if (warnings == "") != (c.fails == "") || !strings.Contains(warnings, c.fails) {
				t.Errorf("warnings %q\n%s", warnings, &j.text)
			}
			if !maps.Equal(d.Metadata(), c.metadata) || !maps.Equal(d.Stats(), c.stats) {
				t.Errorf("set %v and %v", d.Metadata(), d.Stats())
			}
		})
	}
}

// What hooks of a start and of an end set is stored by the runner.
func TestAnswersOfStartsAndEnds(t *testing.T) {
	for _, phase := range []hook.Phase{hook.OnColdStart, hook.OnTerminate} {
		r, _ := runner(shell(phase, `echo '{"metadata": {"node": "22"}, "stats": {"starts": 1}}'`))
		inBox(t, r)
		var got *hook.Data
		r.Remember = func(_ context.Context, d *hook.Data) error { got = d; return nil }
		if _, err := phases[phase](t.Context(), r); err != nil || got == nil || got.Metadata()["node"] != "22" || got.Stats()["starts"] != 1 || got.ConversationID != "conv" {
			t.Errorf("%s: %+v, %v", phase, got, err)
		}
	}
	r, j := runner(shell(hook.OnColdStart, `echo '{"stats": {"starts": 1}}'`))
	inBox(t, r)
	s := someSandbox()
	s.Owner = sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerProject, ID: "p"}
	if err := r.ColdStart(t.Context(), s, "i-1"); err == nil || !strings.Contains(err.Error(), "no conversation") {
		t.Errorf("%v\n%s", err, &j.text)
	}
}

// The answer of a webhook is stored once, in the transaction that takes the call out of the outbox.
func TestWebhooksAnswer(t *testing.T) {
	testkit.Proves(t, "H1", "H4")
	rec := newReceiver(t)
	said := `{"metadata": {"ticket": "T-1"}, "stats": {"score": 0.5}}`
	rec.answers(func(w http.ResponseWriter, _ int) { _, _ = w.Write([]byte(said)) })
	r, j := runner(webhook(hook.OnStreamFinish, rec.URL+"/hook"))
	o := withWebhooks(t, r, j)
	d, in := o.conversation(t)
	o.options.Log = r.Log
	o.options.Answered = func(ctx context.Context, m store.Message, d *hook.Data) error {
		return in.StoreHookAnswer(ctx, m, store.HookAnswer{Sandbox: d.Sandbox.ID, Metadata: d.Metadata(), Conversation: d.ConversationID, Stats: d.Stats()})
	}
	r.Webhooks = hook.NewWebhooks(o.options)
	r.StreamFinish(t.Context(), d)
	claimed, err := o.db.Outbox().ClaimMessages(t.Context(), store.Claiming{Kind: hook.KindWebhook, TTL: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	if err := r.Webhooks.Deliver(t.Context(), claimed[0]); err != nil {
		t.Fatal(err)
	}
	o.remembers(t, in, d, "T-1", 0.5)
	if left := o.left(t); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
	// A server that was slower, with another answer, changes nothing any more.
	said = `{"metadata": {"ticket": "T-2"}, "stats": {"score": 7}}`
	if err := r.Webhooks.Deliver(t.Context(), claimed[0]); err != nil {
		t.Fatal(err)
	}
	o.remembers(t, in, d, "T-1", 0.5)
	// One that is refused was delivered all the same.
	said = `{"metadata": {"ticket": "T-3", "total_cost_usd": "0"}}`
	d.TurnID = "another turn"
	r.StreamFinish(t.Context(), d)
	if err := o.deliver(t, r.Webhooks); err != nil {
		t.Fatal(err)
	}
	o.remembers(t, in, d, "T-1", 0.5)
	if n := len(j.entries(t, "a webhook's answer is refused")); n != 1 {
		t.Errorf("%d refusals are logged\n%s", n, &j.text)
	}
}

// conversation makes a conversation with a sandbox, and the data of a turn in it.
func (o *postOffice) conversation(t *testing.T) (*hook.Data, store.Scope) {
	t.Helper()
	in, d := o.db.In("acme"), someData()
	conv, _, err := in.CreateConversation(t.Context(), store.Conversation{ID: store.NewID(), Template: "web"})
	sb, _, failed := in.RequestSandbox(t.Context(), store.SandboxRequest{Kind: sandbox.OwnerConversation, Owner: conv.ID, Spec: d.Record.Spec, Want: sandbox.WantRunning})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	d.Record, d.ConversationID = sb, conv.ID
	return d, in
}

func (o *postOffice) remembers(t *testing.T, in store.Scope, d *hook.Data, ticket string, score float64) {
	t.Helper()
	sb, err := in.ByID(t.Context(), d.Record.ID)
	conv, failed := in.Conversation(t.Context(), d.ConversationID)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if sb.Spec.Metadata["ticket"] != ticket || conv.Extra["score"] != score {
		t.Errorf("the metadata is %v, the stats are %v", sb.Spec.Metadata, conv.Extra)
	}
}
