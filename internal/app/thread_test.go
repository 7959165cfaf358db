package app_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/acptest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// session is a row of the view sandbox_sessions.
type session struct {
	Sandbox, Session, Status string
	Paused, Resumed          sql.NullString
}

// chatThread is one thread of a chat system, answered by OpenCode through sandbox-agent.
type chatThread struct {
	*testing.T
	c     *client.Client
	db    *sql.DB
	model *fakellm.Server
	key   string
}

// chatEnv is the environment of a server with the template chat: OpenCode through sandbox-agent, with a double of the
// model's service.
func chatEnv(t *testing.T) (env []string, model *fakellm.Server) {
	t.Helper()
	var vars []string
	for _, v := range acptest.Env("opencode") {
		name, value, _ := strings.Cut(v, "=")
		vars = append(vars, fmt.Sprintf("%s = %q", name, value))
	}
	model = fakellm.New(t)
	prompt := filepath.Join(t.TempDir(), "prompt.md")
	if err := os.WriteFile(prompt, []byte("You are Berthold."), 0o600); err != nil {
		t.Fatal(err)
	}
	env = withConfig(t, local(t), fmt.Sprintf(`
[templates.chat]
extends = "sandbox_agent"
key_env = []
prompt_file = %q
services = {%q = %q}
[templates.chat.env]
%s
`, prompt, acptest.Inside, model.URL, strings.Join(vars, "\n")))
	data := value(env, "BERTH_DATA_DIR")
	programtest.Place(t, "opencode", data)
	programtest.Place(t, "sandbox_agent", data)
	return env, model
}

func newChatThread(t *testing.T) (k chatThread, env []string) {
	t.Helper()
	env, model := chatEnv(t)
	p := start(t, env)
	db, err := sql.Open("sqlite", filepath.Join(value(env, "BERTH_DATA_DIR"), "berth.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return chatThread{t, p.client(t, client.WithAttempts(100)), db, model, "C024BE91L:1482960137.003543"}, env
}

// say sends a message and returns the text of the answer and the statuses of the turn.
func (k chatThread) say(prompt string) (text string, statuses []string, end api.TurnEvent) {
	k.Helper()
	stream, err := k.c.Threads("T1").Prompt(k.Context(), k.key, api.Prompt{Prompt: prompt, Template: "chat"}, client.InChannel("C024BE91L"))
	if err != nil {
		k.Fatal(err)
	}
	var events []api.TurnEvent
	for e, err := range stream.Events() {
		if err != nil {
			k.Fatal(err)
		}
		if e.Type == api.EventStatus {
			statuses = append(statuses, e.Status)
		}
		if e.Type == api.EventTextDelta || e.Type == api.EventText {
			text += e.Text
		}
		events = append(events, e)
	}
	if end = lastEvent(k.T, events); end.Status != api.TurnCompleted {
		k.Fatalf("the turn ended with %+v after %q", end, statuses)
	}
	return text, statuses, end
}

// row is what the database says of the thread.
func (k chatThread) row() (s session) {
	k.Helper()
	err := k.db.QueryRow(`select sandbox_id, session_id, status, paused_at, resumed_at from sandbox_sessions where thread_id = $1 and channel_id = 'C024BE91L'`, k.key).
		Scan(&s.Sandbox, &s.Session, &s.Status, &s.Paused, &s.Resumed)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

// instructed checks that the system prompt of a call to the model had the text, and forgets the calls.
func (k chatThread) instructed(text string) {
	k.Helper()
	found := false
	for _, r := range k.model.Requests() {
		found = found || strings.Contains(r.System, text)
	}
	if !found {
		k.Errorf("no call to the model has %q in its system prompt", text)
	}
	k.model.Reset()
}

// run runs a command in the thread's sandbox.
func (k chatThread) run(argv ...string) string {
	k.Helper()
	res, err := k.c.Sandboxes.Exec(k.Context(), k.row().Sandbox, api.Exec{Command: argv})
	if err != nil || res.ExitCode != 0 {
		k.Fatalf("%q: %+v, %v", argv, res, err)
	}
	return res.Stdout
}

// Whatever part of a thread fails between two messages, the next message is answered, at the first attempt if only the
// agent's server died, in the same sandbox and with its files; the database says so.
func TestThreadFailsInEachOfItsParts(t *testing.T) {
	testkit.Proves(t, "O4", "T1", "T2", "T8", "T12")
	t.Parallel()
	k, env := newChatThread(t)
	k.say("§[[write /workspace/output/display/plot.txt :: a plot]][[say first]]")
	k.instructed("You are Berthold.")
	k.run("sh", "-c", "echo You are Ada. >/workspace/.berth/prompt.md")
	for _, fault := range []struct {
		name    string
		happens func()
		status  string // in the database before the next message
		says    []string
		session bool // the agent's session is a new one
		resumed bool // the sandbox stopped and runs again
	}{
		{name: "agent server down", happens: func() { k.run("pkill", "-9", "-f", "/opt/sandbox_agent/") }, status: "active"},
		{name: "sandbox stopped", happens: func() {
			if got, err := k.c.Threads("T1").Stop(t.Context(), k.key); err != nil || got.Status != "paused" {
				t.Fatalf("%+v, %v", got, err)
			}
		}, status: "paused", resumed: true},
		{name: "session missing", happens: func() { k.run("sh", "-c", "rm -rf /workspace/.berth/opencode/*/") }, status: "active", says: []string{"session_replaced"}, session: true},
		{name: "sandbox not found", happens: func() { vanish(t, env) }, status: "active", says: []string{"workspace_restored"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			k := chatThread{t, k.c, k.db, k.model, k.key}
			was := k.row()
			fault.happens()
			if now := k.row(); now.Status != fault.status && now.Status != "resuming" || now.Paused == was.Paused && fault.resumed {
				t.Errorf("before the next message the database says %+v, want %s", now, fault.status)
			}
			text, statuses, end := k.say("§[[bash cat /workspace/output/display/plot.txt]][[say answered]]")
			if !strings.Contains(text, "answered") || len(end.Artifacts) != 0 {
				t.Errorf("the answer is %q, with %+v", text, end.Artifacts)
			}
			if slices.Contains(statuses, "retrying") {
				t.Errorf("the prompt was sent twice: %q", statuses)
			}
			for _, status := range fault.says {
				if !slices.Contains(statuses, status) {
					t.Errorf("the turn says %q, and not %s", statuses, status)
				}
			}
			k.instructed("You are Ada.")
			now := k.row()
			if now.Status != "active" || now.Sandbox != was.Sandbox || (now.Session != was.Session) != fault.session || now.Resumed == was.Resumed && fault.resumed {
				t.Errorf("after it the database says %+v, before %+v", now, was)
			}
			if got := k.run("cat", "/workspace/output/display/plot.txt"); strings.TrimSpace(got) != "a plot" {
				t.Errorf("the file has %q", got)
			}
		})
	}
}
