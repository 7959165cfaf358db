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

// runner is a runner of the given hooks, whatever the template.
func runner(specs ...hook.Spec) (*hook.Runner, *journal) {
	j := new(journal)
	return &hook.Runner{
		Of: func(string) []hook.Spec { return specs }, Log: telemetry.NewLogger(j, "json", slog.LevelDebug, nil),
		Metrics: telemetry.NewMetrics("test"),
	}, j
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

// phases runs the hooks of each phase, and returns what the caller is told.
var phases = map[hook.Phase]func(context.Context, *hook.Runner) ([]string, error){
	hook.OnColdStart: func(ctx context.Context, r *hook.Runner) ([]string, error) {
		return nil, r.ColdStart(ctx, someSandbox(), "i-1")
	},
	hook.OnMessage: func(ctx context.Context, r *hook.Runner) ([]string, error) {
		r.Message(ctx, someData())
		return nil, nil
	},
	hook.OnStreamFinish: func(ctx context.Context, r *hook.Runner) ([]string, error) {
		return r.StreamFinish(ctx, someData()), nil
	},
	hook.OnTerminate: func(ctx context.Context, r *hook.Runner) ([]string, error) {
		return nil, r.Terminate(ctx, someSandbox())
	},
}

// staffed is a driver whose one instance has a real helper, an ordinary process of this machine.
type staffed struct {
	driver.Driver
	t      testing.TB
	helper *guesttest.Helper
	env    []string
}

// inBox gives a runner a sandbox to run commands in.
func inBox(t testing.TB, r *hook.Runner, env ...string) *staffed {
	s := &staffed{t: t, helper: guesttest.NewHelper(t), env: env}
	r.Drivers = map[string]driver.Driver{"staffed": s}
	r.Command = func(sb sandbox.Sandbox, cmd guest.Cmd) guest.Cmd {
		base := append([]string{"PATH=/usr/bin:/bin", "HOME=" + s.helper.Dir + "/home", "TOKEN=" + sb.Spec.Env["TOKEN"]}, s.env...)
		cmd.Env = append(base, cmd.Env...)
		return cmd
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
