package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/testkit/programtest"
)

// insideModel is the address of the model's service in sandboxes.
const insideModel = "127.0.0.1:8788"

// agentEnv are the variables that connect the agents to the model's service at %[1]s.
var agentEnv = map[string]map[string]string{
	"codex": {
		"CODEX_CONFIG": `{"model":"fake-large","model_provider":"fake","model_providers":{"fake":{"name":"fake","base_url":"http://%[1]s/v1","env_key":"FAKE_KEY","wire_api":"responses"}}}`,
		"FAKE_KEY":     "dummy",
	},
	"opencode": {
		"OPENCODE_CONFIG_CONTENT": `{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"http://%[1]s/v1","apiKey":"dummy"},` +
			`"models":{"fake-large":{"tool_call":true,"limit":{"context":200000,"output":8000}}}}},"model":"fake/fake-large","small_model":"fake/fake-large"}`,
	},
}

// environmentOf returns an agent's variables as NAME=value, with the address of the model's service.
func environmentOf(name, model string) (env []string) {
	for _, key := range slices.Sorted(maps.Keys(agentEnv[name])) {
		env = append(env, key+"="+strings.ReplaceAll(agentEnv[name][key], "%[1]s", model))
	}
	return env
}

// agentTemplates returns the configuration of the agents' templates. Their sandboxes have every core of the machine, as the
// agents alone do.
func agentTemplates(model string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(agentEnv)) {
		fmt.Fprintf(&b, "[templates.%[1]s]\nextends = %[1]q\nkey_env = []\ncpu = %[4]d\nservices = {%[2]q = %[3]q}\n[templates.%[1]s.env]\n", name, insideModel, model, runtime.NumCPU())
		for _, v := range environmentOf(name, insideModel) {
			key, value, _ := strings.Cut(v, "=")
			fmt.Fprintf(&b, "%s = %q\n", key, value)
		}
	}
	return b.String()
}

// agentFigures prints the figures of agents that speak ACP. Berth starts a process for each turn. The peers are the agent
// alone with a process for each turn, and with one for all turns.
func agentFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	size.talk = size.talk.whole()
	size.talk.streams = 0
	names := size.talk.agents
	if names == nil {
		names = slices.Sorted(maps.Keys(agentEnv))
	}
	p, done, err := prepare(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	model, err := fakellm.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	s, err := p.openStage(ctx, "sqlite", model.URL, names...)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.agentFigure(ctx, name, model.URL, print); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *stage) agentFigure(ctx context.Context, name, model string, print func(figure) error) error {
	a, _ := profile.Find(name)
	conv, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	each, err := s.openAgent(name, strings.TrimPrefix(model, "http://"))
	if err != nil {
		return err
	}
	live := *each
	if err := live.start(ctx); err != nil {
		return err
	}
	defer live.end()
	if live.session, err = live.open(); err != nil {
		return err
	}
	first := func(ctx context.Context) (time.Duration, error) { return s.firstToken(ctx, conv) }
	for _, c := range []struct {
		name       string
		ours, peer contender
		goals      []goal
		note       string
	}{
		{"a turn of " + a.Title + " to the agent alone", timed(func(ctx context.Context) error { _, err := s.firstToken(ctx, conv); return err }),
			timed(func(ctx context.Context) error { _, err := each.turn(ctx); return err }), []goal{{ratio: 1.05}}, "a process for each turn, of the same session, resumed"},
		{"first token of " + a.Title + ", a new process, to that alone", first, each.turn, nil, "from the prompt to the first text"},
		{"first token of " + a.Title + ", a new process, to a live one alone", first, func(context.Context) (time.Duration, error) { return live.prompt() }, nil, ""},
	} {
		f, err := compare(ctx, c.name, s.talk.real, c.ours, c.peer, c.goals...)
		if err != nil {
			return err
		}
		f.note = c.note
		if err := print(f); err != nil {
			return err
		}
	}
	return nil
}

// firstToken runs a turn through Berth and returns the time to the first text.
func (s *stage) firstToken(ctx context.Context, conv string) (first time.Duration, err error) {
	began := time.Now()
	turn, err := s.client.Conversations.Prompt(ctx, conv, api.Prompt{Prompt: realPrompt})
	if err != nil {
		return 0, err
	}
	var last api.TurnEvent
	for e, err := range turn.Events() {
		if err != nil {
			return 0, err
		}
		if e.Type == api.EventTextDelta && first == 0 {
			first = time.Since(began)
		}
		last = e
	}
	if last.Status != api.TurnCompleted || first == 0 {
		return 0, fmt.Errorf("the turn ended: %+v", last)
	}
	return first, nil
}

// bareAgent is an agent that speaks ACP, without Berth.
type bareAgent struct {
	profile profile.Profile
	program string
	dir     string
	env     []string
	session string // empty: none yet

	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	calls int
}

func (s *stage) openAgent(name, model string) (*bareAgent, error) {
	p, _ := profile.Find(name)
	from, err := programtest.Ensure(name, "")
	if err != nil {
		return nil, err
	}
	a := &bareAgent{profile: p, program: filepath.Join(from, "bin", p.Command[0]), dir: filepath.Join(s.home.dir, "bare-"+name)}
	a.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.dir}, environmentOf(name, model)...)
	for _, v := range p.Environment("") {
		a.env = append(a.env, strings.ReplaceAll(v, p.StateDir(), filepath.Join(a.dir, "state")))
	}
	return a, os.MkdirAll(filepath.Join(a.dir, "state"), 0o755)
}

// turn runs a turn in a new process and returns the time to the first text.
func (a *bareAgent) turn(ctx context.Context) (first time.Duration, err error) {
	began := time.Now()
	if err := a.start(ctx); err != nil {
		return 0, err
	}
	defer a.end()
	if a.session, err = a.open(); err != nil {
		return 0, err
	}
	before := time.Since(began)
	first, err = a.prompt()
	return before + first, err
}

func (a *bareAgent) start(ctx context.Context) (err error) {
	a.cmd = exec.CommandContext(ctx, a.program, a.profile.Command[1:]...)
	a.cmd.Dir, a.cmd.Env, a.cmd.SysProcAttr = a.dir, a.env, &syscall.SysProcAttr{Setpgid: true}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	a.lines = bufio.NewReaderSize(out, 64<<10)
	if err := a.cmd.Start(); err != nil {
		return err
	}
	_, _, err = a.call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}})
	return err
}

// open makes the session, or resumes it.
func (a *bareAgent) open() (id string, err error) {
	params := map[string]any{"cwd": a.dir, "mcpServers": []any{}}
	if a.session != "" {
		params["sessionId"] = a.session
		_, _, err := a.call("session/resume", params)
		return a.session, err
	}
	result, _, err := a.call("session/new", params)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"sessionId"`
	}
	err = json.Unmarshal(result, &made)
	return made.ID, err
}

// prompt sends the prompt and waits for the answer. It returns the time to the first text.
func (a *bareAgent) prompt() (time.Duration, error) {
	_, first, err := a.call("session/prompt", map[string]any{
		"sessionId": a.session, "prompt": []any{map[string]any{"type": "text", "text": realPrompt}},
	})
	if err == nil && first == 0 {
		err = errors.New("the agent alone said nothing")
	}
	return first, err
}

// call sends a request and reads to its answer. It returns the time to the first text before that.
func (a *bareAgent) call(method string, params any) (result json.RawMessage, first time.Duration, err error) {
	a.calls++
	began := time.Now()
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.calls, "method": method, "params": params})
	if err != nil {
		return nil, 0, err
	}
	if _, err := a.in.Write(append(raw, '\n')); err != nil {
		return nil, 0, err
	}
	for {
		line, err := a.lines.ReadBytes('\n')
		if err != nil {
			return nil, 0, fmt.Errorf("the agent alone: %s: %w", method, err)
		}
		if first == 0 && strings.Contains(string(line), `"agent_message_chunk"`) {
			first = time.Since(began)
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		switch {
		case json.Unmarshal(line, &m) != nil, m.Method != "", string(m.ID) != fmt.Sprint(a.calls):
		case len(m.Error) > 0:
			return nil, 0, fmt.Errorf("the agent alone: %s: %s", method, m.Error)
		default:
			return m.Result, first, nil
		}
	}
}

// end ends the agent and what it started.
func (a *bareAgent) end() {
	_ = a.in.Close()
	_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGTERM)
	killed := time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL) })
	_ = a.cmd.Wait()
	killed.Stop()
}
