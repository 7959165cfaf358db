package acp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// manifest describes the recordings.
type manifest struct {
	Agents map[string]struct {
		Cases map[string]struct {
			Prompts []promptFacts
		}
	}
}

// promptFacts is what a recording has of one prompt.
type promptFacts struct {
	Text    string
	Thought string
	Tools   int
	Failed  int
	How     *string
}

func readManifest(t *testing.T) (m manifest) {
	t.Helper()
	raw, err := os.ReadFile("testdata/recordings/manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// played is what the runtime made of one prompt.
type played struct {
	events []api.TurnEvent
	end    agent.End
	said   bool // the agent reported its end
	notes  []string

	interrupted bool // the recorder cancelled the prompt
	code        int
	stderr      string
}

func (p played) text() string { return agenttest.Outcome{Events: p.events}.Text() }

func (p played) count(kind string, keep func(api.TurnEvent) bool) (n int) {
	for _, e := range p.events {
		if e.Type == kind && (keep == nil || keep(e)) {
			n++
		}
	}
	return n
}

// play runs the client with an agent that plays one prompt of a recording, and reads what it prints.
func play(t *testing.T, name, file string, prompt int, s scene, permissions string) played {
	t.Helper()
	turn := agenttest.Turn(s.Text)
	turn.Agent, turn.Permissions = name, permissions
	method, theirs := s.session()
	turn.Session.Resume = method != "session/new"
	p := runClient(t, turn, theirs, []string{"/proc/self/exe", replayArg, file, strconv.Itoa(prompt)})
	p.interrupted = slices.ContainsFunc(s.Prompt, func(r recorded) bool { return r.Msg != nil && r.Msg.Method == "session/cancel" })
	return p
}

// runClient runs the client in a separate process outside of a sandbox.
func runClient(t *testing.T, turn agent.Turn, theirs string, command []string) played {
	t.Helper()
	runtime := acp.New()
	var c client.Turn
	if err := json.Unmarshal([]byte(runtime.Job(turn).Input), &c); err != nil {
		t.Fatal(err)
	}
	c.StateDir, c.Command, c.Bin = t.TempDir(), command, ""
	if turn.Session.Resume {
		put(t, filepath.Join(c.StateDir, "berth-sessions", c.Session), theirs)
	}
	raw, _ := json.Marshal(c)
	file := filepath.Join(t.TempDir(), "turn.json")
	put(t, file, string(raw))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, client.Program, client.Name, "mark", file)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	p := readLines(t, runtime, turn, out.Bytes())
	p.code, p.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	return p
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

var note = regexp.MustCompile(`^{"berth":"(\w+)"}$`)

// readLines reads the output of the client. After each line the reader is replaced by one that continues from its
// state.
func readLines(t *testing.T, runtime *agent.Worker, turn agent.Turn, out []byte) (p played) {
	t.Helper()
	var state json.RawMessage
	for line := range bytes.Lines(out) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if m := note.FindSubmatch(line); m != nil {
			p.notes = append(p.notes, string(m[1]))
			continue
		}
		r, err := runtime.Read(turn, state)
		if err != nil {
			t.Fatal(err)
		}
		events, ok := r.Line(line)
		if !ok {
			t.Errorf("no line of the client: %s", line)
		}
		p.events = append(p.events, events...)
		state, _ = json.Marshal(r.State())
		if len(state) > 8<<10 {
			t.Errorf("a state of %d bytes", len(state))
		}
		p.end, p.said = r.End()
	}
	return p
}

// profileOf returns the name of the profile for the agent of a recording.
func profileOf(recorded string) string {
	if _, ok := profile.Find(recorded); ok {
		return recorded
	}
	return "" // an agent without a profile
}

// remarks are the texts that agents mix into their answers.
var remarks = regexp.MustCompile("(?s)(Warning: Model metadata for `fake-large` not found\\. Defaulting to fallback metadata; this can degrade performance and cause issues\\.\n\n" +
	`|Info: /workspace/out\.txt|Info: (Response was interrupted due to a server error|Request failed due to a transient API error)\. Retrying\.\.\.|Info: Operation cancelled by user` +
	`|Retrying \(attempt \d/3, waiting \ds\)\.\.\.|Retry finished, resuming\.)`)

// failing are the codes of the cases whose first prompt may fail.
var failing = map[string]api.Code{
	"error-400": api.CodeAgentFailed, "error-500": api.CodeModelUnavailable, "error-429x2": api.CodeModelRateLimited,
	"error-cut1": api.CodeModelUnavailable,
}

// fails reports whether the first prompt of a case failed. The recording may have an ordinary end for it.
func fails(name, test, how string) bool {
	switch test {
	case "error-400", "error-500":
		return true
	case "error-429x2":
		return name == "codex" || strings.HasPrefix(how, "error")
	case "error-cut1":
		return name == "goose" || strings.HasPrefix(how, "error")
	}
	return false
}

// silent are the agents that do not say why a call of the model failed.
var silent = []string{"pi", "cline", "kimi"}

// doubling are the agents that repeat a text that was cut off.
var doubling = []string{"codex", "copilot", "pi", "cline", "grok"}

func TestRecordings(t *testing.T) {
	testkit.Proves(t, "C9")
	m := readManifest(t)
	if len(m.Agents) != 13 {
		t.Errorf("there are recordings of %d agents", len(m.Agents))
	}
	n := 0
	for name, a := range m.Agents {
		for test, facts := range a.Cases {
			n++
			file, err := filepath.Abs("testdata/recordings/" + name + "/" + test + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			all, err := scenes(file)
			if err != nil || len(all) != len(facts.Prompts) {
				t.Fatalf("%s: %d prompts, want %d: %v", file, len(all), len(facts.Prompts), err)
			}
			for i, s := range all {
				t.Run(name+"/"+test+"/"+strconv.Itoa(i), func(t *testing.T) {
					t.Parallel()
					permissions := ""
					if test == "tool-ask-deny" {
						permissions = profile.ModeNothing
					}
					checkPlayed(t, name, test, i, facts.Prompts[i], play(t, profileOf(name), file, i, s, permissions))
				})
			}
		}
	}
	if n != 177 {
		t.Errorf("there are %d recordings", n)
	}
}

func checkPlayed(t *testing.T, name, test string, prompt int, facts promptFacts, p played) {
	t.Helper()
	how := ""
	if facts.How != nil {
		how = *facts.How
	}
	defer func() {
		if t.Failed() {
			t.Logf("exit %d, notes %v, end %+v, stderr %s", p.code, p.notes, p.end, p.stderr)
		}
	}()
	want := facts.Text
	if name != "codexzed" { // it has no profile
		want = remarks.ReplaceAllString(want, "")
	}
	status, code := api.TurnCompleted, api.Code("")
	switch {
	case how == "cancelled", p.interrupted:
		status = api.TurnCancelled
	case prompt == 0 && fails(name, test, how):
		status, code = api.TurnFailed, failing[test]
		if slices.Contains(silent, name) {
			code = api.CodeAgentFailed
		}
		want, _, _ = strings.Cut(want, "Ran into this error")
		if test != "error-cut1" && name != "codexzed" {
			want = ""
		}
	case how == "":
		status = "" // killed
	}
	if prompt == 0 && test == "error-cut1" && slices.Contains(doubling, name) {
		want = strings.ReplaceAll(want, "abcdefghijklmnopabcd", "abcd")
		want = strings.ReplaceAll(want, "abcdabcd", "abcd")
	}
	if got := p.text(); strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(want, "\n", "") {
		t.Errorf("it says %q, want %q", got, want)
	}
	tools := facts.Tools
	if name == "gemini" && (test == "tool-ask-deny" || test == "permission-unanswered") && prompt == 0 {
		tools++ // the recorder did not count a tool that the agent only asked for
	}
	if n := p.count(api.EventToolCall, nil); n != tools {
		t.Errorf("%d tools were called, want %d", n, tools)
	}
	failed := p.count(api.EventToolResult, func(e api.TurnEvent) bool { return e.Error })
	if want := min(facts.Failed, facts.Tools); failed < want {
		t.Errorf("%d tools failed, want %d", failed, want)
	}
	ended := p.end.Status
	if !p.said {
		ended = ""
	}
	if slices.Contains(p.notes, "cancelled") {
		ended = api.TurnCancelled
	}
	if ended != status || p.end.Code != code {
		t.Errorf("it ended %q %q, want %q %q", ended, p.end.Code, status, code)
	}
	checkUsage(t, name, test, prompt, p.end.Usage)
}

// truth are the tokens of the prompts of the case "usage", as the model's service counted them: all input and the
// output.
var truth = [2][2]int64{{3336, 63}, {1136, 23}}

func checkUsage(t *testing.T, name, test string, prompt int, u api.Usage) {
	t.Helper()
	p, _ := profile.Find(profileOf(name))
	if p.Usage.Exact == u.Estimated && (test == "usage" || test == "tool") {
		t.Errorf("estimated: %t", u.Estimated)
	}
	if test != "usage" || !p.Usage.Exact {
		return
	}
	input := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	want := truth[prompt]
	if name == "copilot" && prompt == 1 { // it counts from the start of its process, which had the first prompt too
		want = [2]int64{truth[0][0] + truth[1][0], truth[0][1] + truth[1][1]}
	}
	if input != want[0] || u.OutputTokens != want[1] {
		t.Errorf("counted %d and %d (%+v), in truth %v", input, u.OutputTokens, u, want)
	}
	if cached := cmp.Or(u.CacheReadTokens, int64(0)); name != "gemini" && cached == 0 {
		t.Error("no token was read from the cache")
	}
}
