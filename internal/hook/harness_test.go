package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/guest/guesttest"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// journal is what was logged, as JSON.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// entries are the records with the message.
func (j *journal) entries(t testing.TB, message string) (found []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

// testRunner runs hooks on instances of its drivers.
type testRunner struct {
	hook.Options
	drivers map[string]driver.Driver
	env     map[string]string // of the template
	changed int               // how often a change of files was recorded
}

// runner is a runner of the given hooks, whatever the template.
func runner(specs ...hook.Spec) (*testRunner, *journal) {
	j := new(journal)
	return &testRunner{Options: hook.Options{
		Of: func(string) []hook.Spec { return specs }, Log: telemetry.NewLogger(j, "json", slog.LevelDebug, nil),
		Metrics: telemetry.NewMetrics("test"),
	}, drivers: map[string]driver.Driver{"staffed": struct{ driver.Driver }{}}}, j
}

func (r *testRunner) handle(s sandbox.Sandbox, id driver.ID) *engine.Handle {
	return engine.New(engine.Options{Drivers: r.drivers, Templates: templates{r}, Store: changes{r: r}}).HandleAt(s, id)
}

func (r *testRunner) ColdStart(ctx context.Context, s sandbox.Sandbox, id driver.ID) error {
	return hook.New(r.Options).ColdStart(ctx, r.handle(s, id), func(context.Context) error { return nil })
}

func (r *testRunner) Terminate(ctx context.Context, s sandbox.Sandbox) error {
	return hook.New(r.Options).Terminate(ctx, r.handle(s, driver.ID(s.Instance)))
}

func (r *testRunner) Message(ctx context.Context, d *hook.Data) {
	d.Handle = r.handle(d.Record, driver.ID(d.Record.Instance))
	hook.New(r.Options).Message(ctx, d)
}

func (r *testRunner) StreamFinish(ctx context.Context, d *hook.Data) []string {
	d.Handle = r.handle(d.Record, driver.ID(d.Record.Instance))
	return hook.New(r.Options).StreamFinish(ctx, d)
}

// changes is a store that counts changes of files.
type changes struct {
	engine.Store
	r *testRunner
}

func (c changes) RecordChange(context.Context, string, string, bool, time.Duration) error {
	c.r.changed++
	return nil
}

// templates only has an environment.
type templates struct{ r *testRunner }

func (templates) Names() []string                             { return nil }
func (templates) Allows(_, _ string) bool                     { return true }
func (templates) Spec(string) sandbox.Spec                    { return sandbox.Spec{} }
func (templates) Prepare(sandbox.Sandbox, *driver.Spec) error { return nil }
func (templates) User(string) string                          { return "" }
func (t templates) Env(context.Context, string, string) (map[string]string, error) {
	return t.r.env, nil
}

const canary = "canary-0123456789"

func someSandbox() sandbox.Sandbox {
	return sandbox.Sandbox{
		ID: "0198-box", Owner: sandbox.Owner{Tenant: "acme", Kind: sandbox.OwnerConversation, ID: "conv"},
		Spec:     sandbox.Spec{Template: "web", Driver: "staffed", Env: map[string]string{"TOKEN": canary}},
		Instance: "i-1", Incarnation: 3, Synced: sandbox.SyncMark{Version: "v7", Incarnation: 3},
	}
}

func someData() *hook.Data {
	return &hook.Data{
		Record: someSandbox(), ConversationID: "conv", TurnID: "turn",
		Message: api.Message{ID: "msg", ConversationID: "conv", TurnID: "turn", Role: api.RoleAssistant, Status: api.TurnCompleted,
			Content: []api.Block{{Type: api.BlockText, Text: "hello"}}, CreatedAt: time.Unix(1700000000, 0).UTC()},
		Usage: api.Usage{InputTokens: 3, OutputTokens: 4}, Status: api.TurnCompleted,
	}
}

// phases runs the hooks of each phase, and returns what the caller gets.
var phases = map[hook.Phase]func(context.Context, *testRunner) ([]string, error){
	hook.OnColdStart: func(ctx context.Context, r *testRunner) ([]string, error) {
		return nil, r.ColdStart(ctx, someSandbox(), "i-1")
	},
	hook.OnMessage: func(ctx context.Context, r *testRunner) ([]string, error) {
		r.Message(ctx, someData())
		return nil, nil
	},
	hook.OnStreamFinish: func(ctx context.Context, r *testRunner) ([]string, error) {
		return r.StreamFinish(ctx, someData()), nil
	},
	hook.OnTerminate: func(ctx context.Context, r *testRunner) ([]string, error) {
		return nil, r.Terminate(ctx, someSandbox())
	},
}

// staffed is a driver whose one instance has a real helper, an ordinary process of this machine.
type staffed struct {
	driver.Driver
	t      testing.TB
	helper *guesttest.Helper
}

// inBox gives a runner a sandbox to run commands in.
func inBox(t testing.TB, r *testRunner, env ...string) *staffed {
	s := &staffed{t: t, helper: guesttest.NewHelper(t)}
	r.drivers = map[string]driver.Driver{"staffed": s}
	r.env = map[string]string{"PATH": "/usr/bin:/bin", "HOME": s.helper.Dir + "/home"}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		r.env[name] = value
	}
	return s
}

func (s *staffed) Guest(_ context.Context, id driver.ID) (guest.Conn, error) {
	if id != "i-1" {
		return nil, driver.ErrNotRunning
	}
	return s.helper.Connect(s.t), nil
}

func (s *staffed) Output(context.Context, driver.ID, string, int64) iter.Seq2[guest.Chunk, error] {
	return nil
}
