package acp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/client"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/acp"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/testkit"
)

// scriptArg is the first argument of a test binary that plays an agent by a script. The script's file follows it.
const scriptArg = "script-agent"

// script tells an agent what to do.
type script struct {
	Answers map[string]json.RawMessage // results by method; a value with "code" is an error
	Prompt  []string                   // lines after the prompt; $ID is the prompt's id, $S the session's
	Bytes   int                        // length of a line without an end, before those lines
	Deaf    bool                       // it ignores SIGTERM and session/cancel
	Stops   bool                       // it reads nothing after the prompt
	Kill    string                     // a method on which it kills itself
	Cancels bool                       // it interrupts the client after those lines
	Log     string                     // a file for all that it receives
}

func playScript(file string) error {
	var s script
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return err
	}
	if s.Deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	p := player{bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)}
	for {
		m, err := p.next()
		if err != nil {
			if s.Deaf {
				select {}
			}
			return nil
		}
		line, _ := json.Marshal(m)
		fmt.Fprintf(log, "%s\n", line)
		if m.Method == s.Kill {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		s.answer(p, m)
		if err := p.out.Flush(); err != nil {
			return err
		}
		if s.Cancels && m.Method == "session/prompt" {
			_ = syscall.Kill(os.Getppid(), syscall.SIGINT)
		}
		if s.Stops && m.Method == "session/prompt" {
			select {}
		}
	}
}

func (s script) answer(p player, m rpc) {
	if m.Method == "session/prompt" {
		p.out.WriteString(strings.Repeat("x", s.Bytes))
		for _, line := range s.Prompt {
			p.out.WriteString(strings.NewReplacer("$ID", string(m.ID), "$S", "theirs").Replace(line) + "\n")
		}
		return
	}
	if len(m.ID) == 0 || m.Method == "" {
		return
	}
	result, ok := s.Answers[m.Method]
	switch {
	case ok && bytes.Contains(result, []byte(`"code"`)):
		p.say(rpc{ID: m.ID, Error: result})
		return
	case !ok && m.Method == "session/new":
		result = json.RawMessage(`{"sessionId":"theirs"}`)
	case !ok:
		result = json.RawMessage(`{}`)
	}
	p.say(rpc{ID: m.ID, Result: result})
}

// run runs a turn with an agent that plays the script. It returns what the agent received, too.
func (s script) run(t *testing.T, turn agent.Turn) (p played, received string) {
	t.Helper()
	dir := t.TempDir()
	s.Log = filepath.Join(dir, "log")
	raw, _ := json.Marshal(s)
	put(t, filepath.Join(dir, "script"), string(raw))
	p = runClient(t, turn, "theirs", []string{"/proc/self/exe", scriptArg, filepath.Join(dir, "script")})
	got, _ := os.ReadFile(s.Log)
	return p, string(got)
}

func update(u string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$S","update":` + u + `}}`
}

func say(text string) string {
	raw, _ := json.Marshal(text)
	return update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(raw) + `}}`)
}

const ended = `{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn"}}`

const withUsage = `{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1}}}`

func TestHostileLinesSurvive(t *testing.T) {
	t.Parallel()
	testkit.Proves(t, "C9")
	long := strings.Repeat("y", 540<<10)
	s := script{Bytes: 9 << 20, Prompt: []string{
		"", "", `{`, `null`, `[]`, `"x"`, `12`, `{"method":12}`, `{"jsonrpc":"2.0","method":"session/update"}`,
		`{"jsonrpc":"2.0","method":"session/update","params":[]}`, `{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"fs/read_text_file"}`, "\xff\xfe\x00", `{"berth":"cancelled"}`, `{"acp":"answer","answer":{"stopReason":"refusal"}}`,
		`{"acp":"text","method":"session/update","text":"forged"}`,
		strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		update(`{"sessionUpdate":"available_commands_update","availableCommands":["` + long + `"]}`),
		update(`{"sessionUpdate":12}`), update(`{"sessionUpdate":"agent_message_chunk"}`),
		update(`{"sessionUpdate":"agent_message_chunk","content":[1]}`),
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"x"}}`),
		update(`{"sessionUpdate":"tool_call"}`), update(`{"sessionUpdate":"tool_call_update","toolCallId":"never","status":"failed"}`),
		update(`{"sessionUpdate":"tool_call","toolCallId":"a","title":7,"rawInput":"text","status":"completed","rawOutput":{"output":[1,2]}}`),
		update(`{"sessionUpdate":"usage_update","used":-5,"size":"x","cost":{"amount":1e400}}`),
		strings.Replace(say("of another session"), "$S", "other", 1),
		say("nul \x00 here "), say(long), say(" end"),
		update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"not mine"}}`),
		`{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn","usage":{"inputTokens":-3,"outputTokens":1e300,"totalTokens":"x"}}}`,
	}}
	p, received := s.run(t, agenttest.Turn("x"))
	if p.end.Status != api.TurnCompleted || len(p.notes) > 0 || p.code != 0 {
		t.Errorf("exit %d, %v, %+v, %s", p.code, p.notes, p.end, p.stderr)
	}
	if want := "nul \uFFFD here " + long + " end"; p.text() != want {
		t.Errorf("it says %d bytes %.80q…, want %d", len(p.text()), p.text(), len(want))
	}
	if p.count(api.EventToolCall, nil) != 2 || p.count(api.EventToolResult, nil) != 2 {
		t.Errorf("%+v", p.events)
	}
	if strings.Count(received, "-32601") != 1 {
		t.Errorf("a request that is none of the protocol was not refused: %.2000s", received)
	}
}

func TestManyToolsAreBounded(t *testing.T) {
	t.Parallel()
	var s script
	for i := range 1500 {
		s.Prompt = append(s.Prompt, update(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"%d","title":"t","status":"completed","rawInput":{"x":1},"rawOutput":"r"}`, i)))
	}
	s.Prompt = append(s.Prompt, update(`{"sessionUpdate":"tool_call","toolCallId":"0","rawInput":{"x":2}}`), say("done"), ended)
	p, _ := s.run(t, agenttest.Turn("x"))
	if n := p.count(api.EventToolCall, nil); n != 1000 || p.end.Status != api.TurnCompleted {
		t.Errorf("%d calls, %+v", n, p.end)
	}
	big := strings.Repeat("z", 600<<10)
	s = script{Prompt: []string{
		update(`{"sessionUpdate":"tool_call","toolCallId":"big","status":"completed","rawInput":{"x":"` + big + `"},"rawOutput":"` + big + `"}`), say("done"), ended,
	}}
	p, _ = s.run(t, agenttest.Turn("x"))
	for _, e := range p.events {
		if e.Type == api.EventToolCall && (!e.Cut || e.Input != nil) || e.Type == api.EventToolResult && (!e.Cut || len(e.Text) > 256<<10) {
			t.Errorf("%s of %d and %d bytes", e.Type, len(e.Input), len(e.Text))
		}
	}
}

const asks = `{"jsonrpc":"2.0","id":"ask","method":"session/request_permission","params":{"sessionId":"$S","toolCall":{"toolCallId":"t","kind":"%s","rawInput":{"a":1}},` +
	`"options":[{"optionId":"always","kind":"allow_always"},{"optionId":"no","kind":"reject_once"},{"optionId":"yes","kind":"allow_once"}]}}`

func TestPermissionIsAnsweredByPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, kind, want string }{
		{"", "execute", "yes"}, {profile.ModeEverything, "other", "yes"}, {profile.ModeEdits, "edit", "yes"}, {profile.ModeEdits, "execute", "no"},
		{profile.ModeNothing, "edit", "no"}, {profile.ModePlan, "execute", "no"}, {"unknown", "edit", "no"},
	} {
		turn := agenttest.Turn("x")
		turn.Permissions = c.mode
		p, received := script{Prompt: []string{fmt.Sprintf(asks, c.kind), say("done"), ended}}.run(t, turn)
		if !strings.Contains(received, `"optionId":"`+c.want+`"`) || p.end.Status != api.TurnCompleted || p.count(api.EventToolCall, nil) != 1 {
			t.Errorf("%q, %s: %s", c.mode, c.kind, received)
		}
	}
}

// A request that comes after the turn was cancelled is answered so that the agent can end.
func TestPermissionAfterCancelIsCancelled(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	turn := agenttest.Turn("x")
	s := script{Prompt: []string{say("before")}, Cancels: true, Answers: map[string]json.RawMessage{}, Log: log}
	p, received := s.run(t, turn)
	if !slices.Equal(p.notes, []string{"cancelled"}) || p.said || !strings.Contains(received, "session/cancel") {
		t.Errorf("%+v %s", p, received)
	}
}

func TestAgentThatDoesNotListenIsKilled(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	p, _ := script{Prompt: []string{say("before")}, Cancels: true, Deaf: true}.run(t, agenttest.Turn("x"))
	if !slices.Equal(p.notes, []string{"cancelled"}) || time.Since(begun) > 30*time.Second {
		t.Errorf("%+v after %s", p, time.Since(begun))
	}
	// An agent that asks and reads nothing.
	flood := script{Stops: true}
	for range 5000 {
		flood.Prompt = append(flood.Prompt, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("m", 100)+`"}`)
	}
	p, _ = flood.run(t, agenttest.Turn("x"))
	if p.code != 137 || p.said {
		t.Errorf("%+v", p)
	}
}

func TestAgentThatDies(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"initialize", "session/new", "session/set_mode", "session/prompt"} {
		turn := agenttest.Turn("x")
		turn.Agent = "goose"
		if p, _ := (script{Kill: method}).run(t, turn); p.code != 137 || p.said || len(p.notes) > 0 {
			t.Errorf("%s: %+v", method, p)
		}
	}
}

func TestHandshakeErrors(t *testing.T) {
	t.Parallel()
	fails := func(method, body string) script {
		return script{Answers: map[string]json.RawMessage{method: json.RawMessage(body)}, Prompt: []string{say("done"), ended}}
	}
	check := func(p played, status string, code api.Code, message string) {
		t.Helper()
		if p.end.Status != status || p.end.Code != code || !strings.Contains(p.end.Message, message) {
			t.Errorf("%+v, want %s %s %q", p.end, status, code, message)
		}
	}
	turn := agenttest.Turn("x")
	p, _ := fails("session/new", `{"code":-32000,"message":"Authentication required"}`).run(t, turn)
	check(p, api.TurnFailed, api.CodeModelKeyRefused, "the key was refused, or the agent wants an account: Authentication required")
	p, _ = fails("initialize", `{"code":-32603,"message":"no"}`).run(t, turn)
	check(p, api.TurnFailed, api.CodeAgentFailed, "the agent refuses initialize: no")
	p, _ = fails("session/new", `{"sessionId":""}`).run(t, turn)
	if p.said || p.code != 1 || !strings.Contains(p.stderr, "without an id") {
		t.Errorf("%+v", p)
	}
	// A model that the agent refuses fails the turn; a mode that it refuses does not.
	turn.Model = "wrong"
	p, _ = fails("session/set_config_option", `{"code":-32602,"message":"unknown model"}`).run(t, turn)
	check(p, api.TurnFailed, api.CodeAgentFailed, `refuses the model "wrong": unknown model`)
	turn.Model, turn.Agent = "", "kimi"
	p, _ = fails("session/set_mode", `{"code":-32602,"message":"no such mode"}`).run(t, turn)
	check(p, api.TurnCompleted, "", "")
	if p.count(api.EventStatus, func(e api.TurnEvent) bool { return e.Status == agent.StatusNotice }) != 1 {
		t.Errorf("%+v", p.events)
	}
}

func TestSessionThatTheAgentLost(t *testing.T) {
	t.Parallel()
	s := script{Answers: map[string]json.RawMessage{"session/load": json.RawMessage(`{"code":-32002,"message":"not found"}`)}, Prompt: []string{say("done"), ended}}
	turn := agenttest.Turn("x")
	turn.Session.Resume = true
	if p, received := s.run(t, turn); !slices.Equal(p.notes, []string{"no_session"}) || strings.Contains(received, "session/prompt") {
		t.Errorf("%+v", p)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	p := runClient(t, agenttest.Turn("x"), "", []string{"no-such-program-anywhere"})
	if !slices.Equal(p.notes, []string{"not_installed"}) || p.code != 127 {
		t.Errorf("%+v", p)
	}
}

// An end that says nothing is a failure.
func TestEndWithoutAnAnswerIsAFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent  string
		lines  []string
		status string
		code   api.Code
	}{
		{"kimi", []string{ended}, api.TurnFailed, api.CodeAgentFailed},
		{"goose", []string{say("Ran into this error: 401 Unauthorized"), ended}, api.TurnFailed, api.CodeModelKeyRefused},
		{"goose", []string{say("Ran into this error: 500"), withUsage}, api.TurnFailed, api.CodeModelUnavailable},
		{"goose", []string{say("Ran into this error: 500"), say(" is what I say"), withUsage}, api.TurnCompleted, ""},
		{"goose", []string{say("torn"), ended}, api.TurnFailed, api.CodeAgentFailed}, // without usage
		{"", []string{say("fine"), ended}, api.TurnCompleted, ""},
		{"", []string{say("no"), strings.Replace(ended, "end_turn", "refusal", 1)}, api.TurnFailed, api.CodeModelRefusal},
		{"", []string{strings.Replace(ended, "end_turn", "max_tokens", 1)}, api.TurnFailed, api.CodeAnswerTooLong},
		{"", []string{say("half"), strings.Replace(ended, "end_turn", "max_tokens", 1)}, api.TurnCompleted, ""},
		{"pi", []string{update(`{"sessionUpdate":"tool_call","toolCallId":"a","status":"completed"}`), ended}, api.TurnFailed, api.CodeAgentFailed},
	} {
		turn := agenttest.Turn("x")
		turn.Agent = c.agent
		if p, _ := (script{Prompt: c.lines}).run(t, turn); p.end.Status != c.status || p.end.Code != c.code {
			t.Errorf("%s %v: %+v", c.agent, c.lines, p.end)
		}
	}
}

// The client runs beside every agent, so it takes little memory. It is a role of the server's program.
func TestClientIsSmall(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "turn")
	put(t, file, `{"command":["/bin/sleep","600"],"state_dir":"`+t.TempDir()+`","session":"s"}`)
	cmd := exec.Command(testkit.Binary(t))
	cmd.Args = []string{client.Program, client.Name, "mark", file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if len(children) == 0 {
			return fmt.Errorf("the agent does not run: %v", err)
		}
		return nil
	})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	_, memory, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(memory, &kib); err != nil || kib > 8<<10 {
		t.Errorf("%d KiB of memory: %v", kib, err)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Codex reports a tool when that has run for a while. So a turn that was cut off behind the prompt is not tried again.
func TestLateCallsAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"codex": true, "goose": false} {
		turn := agenttest.Turn("x")
		turn.Agent = name
		runtime := acp.New()
		r, err := runtime.Read(turn, nil)
		if err != nil {
			t.Fatal(err)
		}
		worked := func() bool { return r.(interface{ Worked(killed bool) bool }).Worked(false) }
		if r.Line([]byte(`{"acp":"begin","session":"s"}`)); worked() {
			t.Errorf("%s worked before the prompt", name)
		}
		if r.Line([]byte(`{"acp":"prompt"}`)); worked() != late {
			t.Errorf("%s: worked is %t", name, worked())
		}
	}
}
