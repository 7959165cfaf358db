package acp_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/acp/profile"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/acp"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/acptest"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
	"github.com/berthdev/berth/internal/tool/tooltest"
)

// runtimeOf returns the runtime for turns of one agent.
func runtimeOf(name string) agent.Runtime {
	runtime := acp.New()
	runtime.Grace = 4 * time.Second
	job, read := runtime.Job, runtime.Read
	runtime.Job = func(t agent.Turn) agent.Job {
		t.Agent, t.Command = name, acptest.Command(name)
		return job(t)
	}
	runtime.Read = func(t agent.Turn, state json.RawMessage) (agent.Reader, error) {
		t.Agent = name
		return read(t, state)
	}
	return runtime
}

// harness is a real agent in a real sandbox, which reaches a model's service.
func harness(t *testing.T, name, model string, mounts ...driver.Mount) agenttest.Harness {
	t.Helper()
	h := agenttest.Harness{
		Runtime: runtimeOf(name),
		Box: boxtest.New(t, boxtest.Options{
			Mounts:   append(mounts, driver.Mount{Source: acptest.Dir(t, name), Target: "/opt/" + name}),
			Services: map[string]string{acptest.Inside: model},
			Env:      acptest.Env(name),
			Limits:   driver.Limits{MemoryBytes: 2 << 30},
		}),
		Say: func(text string) string { return "§[[chunk 4]][[say " + text + "]]" },
		Write: func(path, text string) string {
			return "§[[write /workspace/" + path + " :: " + text + "]][[say done]]"
		},
		Exec:    func(command string) string { return "§[[say Running.]][[bash " + command + "]][[say done]]" },
		Session: func(id string) string { return ".berth/" + name + "/berth-sessions/" + id },
	}
	h.Put(t, "made/.keep", "") // not every agent makes the directories of a file that it writes
	switch name {
	case "codex": // it reports a command only when that has run for a while
		h.Exec = func(command string) string { return "§[[say Running.]][[bash sleep 1; " + command + "]][[say done]]" }
	case "gemini":
		h.NoOutput = true
	}
	for file, text := range acptest.Files(name) {
		h.Put(t, ".berth/"+name+"/"+file, text)
	}
	return h
}

func TestGoosePassesSuite(t *testing.T) {
	testkit.Proves(t, "C9", "X10")
	t.Parallel()
	agenttest.Run(t, harness(t, "goose", fakellm.New(t).URL))
}

func TestOpenCodePassesSuite(t *testing.T) {
	testkit.Proves(t, "C9", "X10")
	t.Parallel()
	agenttest.Run(t, harness(t, "opencode", fakellm.New(t).URL))
}

// The agents beside Goose and OpenCode are large and slow to start, so make torture runs them.
func TestOtherAgentsPassSuite(t *testing.T) {
	others := []string{"claude", "cline", "codex", "copilot", "gemini", "grok", "kilo", "kimi", "pi", "qwen"}
	for _, name := range others[:testkit.Size(t, "acp.agents")-2] {
		t.Run(name, func(t *testing.T) {
			model := fakellm.New(t)
			h := harness(t, name, model.URL)
			agenttest.Run(t, h)
			t.Run("Tokens", func(t *testing.T) { testTokens(t, h, model, name) })
		})
	}
}

// testTokens compares the tokens of turns with those of the model's service. Agents differ in what they say of the cache,
// so the input is compared as a whole. Calls beside the turn, such as for titles, come after its steps.
func testTokens(t *testing.T, h agenttest.Harness, model *fakellm.Server, name string) {
	p, _ := profile.Find(name)
	turn := agenttest.Turn(h.Exec("echo one"))
	for n, steps := range []int{2, 1} {
		model.Reset()
		o := h.Do(t, turn)
		var input, output int64
		for _, r := range model.Requests() {
			if !r.Side && r.Turn == n+1 && r.Step < steps && r.Usage != nil {
				input += int64(r.Usage.Input + r.Usage.CacheCreate + r.Usage.CacheRead)
				output += int64(r.Usage.Output)
			}
		}
		got := o.End.Usage
		counted := got.InputTokens + got.CacheReadTokens + got.CacheWriteTokens
		if got.Estimated == p.Usage.Exact || p.Usage.Exact && (counted != input || got.OutputTokens != output) {
			t.Errorf("turn %d: counted %+v, in truth %d and %d", n, got, input, output)
		}
		turn = agenttest.Next(turn, h.Say("two"))
	}
}

// The tools of MCP servers are offered beside the agent's own, with the servers' environment.
func TestAgentsHaveToolsOfMCPServers(t *testing.T) {
	testkit.Proves(t, "P3")
	t.Parallel()
	for name, tool := range map[string]string{"goose": "good__env", "opencode": "good_env"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := harness(t, name, fakellm.New(t).URL, driver.Mount{Source: tooltest.Server(t), Target: "/opt/tools"})
			turn := agenttest.Turn("§[[tool " + tool + " {}]][[say {{last_result}}]]")
			turn.Servers = map[string]agent.Server{
				"good": {Command: []string{"/opt/tools/server"}, Env: map[string]string{"OF_SERVER": "secret"}, Timeout: time.Minute},
			}
			for range 2 { // a session that begins, and one that is resumed
				o := h.Do(t, turn)
				if o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "secret") {
					t.Errorf("%+v, and it says %q", o.End, o.Text())
				}
				turn = agenttest.Next(turn, turn.Prompt)
			}
		})
	}
}

// A call of the model that fails is a failed turn, with a code that a program can act on.
func TestFailedCallsAreFailedTurns(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	h := harness(t, "goose", fakellm.New(t).URL)
	for prompt, want := range map[string]api.Code{
		"[[error 401]]": api.CodeModelKeyRefused, "[[error 429]]": api.CodeModelRateLimited, "[[error 500]]": api.CodeModelUnavailable,
		"[[bash true]][[error 400]]": api.CodeAgentFailed,
	} {
		o := h.Do(t, agenttest.Turn("§"+prompt))
		if o.End.Status != api.TurnFailed || o.End.Code != want || o.End.Message == "" || o.Text() != "" {
			t.Errorf("%s: %+v, and it says %q; want %s", prompt, o.End, o.Text(), want)
		}
	}
}

func TestAgentsKeepToTheirPermissions(t *testing.T) {
	t.Parallel()
	type allowed struct{ edits, commands bool }
	for name, modes := range map[string]map[string]allowed{
		"goose":    {profile.ModeEverything: {true, true}, profile.ModeNothing: {}},
		"opencode": {profile.ModeEdits: {true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := harness(t, name, fakellm.New(t).URL)
			for mode, want := range modes {
				for _, prompt := range []string{"[[write /workspace/edit-" + mode + " :: x]][[say done]]", "[[bash touch command-" + mode + "]][[say done]]"} {
					turn := agenttest.Turn("§" + prompt)
					turn.Permissions = mode
					if o := h.Do(t, turn); o.End.Status != api.TurnCompleted {
						t.Errorf("%s: %+v", mode, o.End)
					}
				}
				_, edits := h.File(t, files.WorkingDir, "edit-"+mode)
				_, commands := h.File(t, files.WorkingDir, "command-"+mode)
				if got := (allowed{edits, commands}); got != want {
					t.Errorf("%s: %+v, want %+v", mode, got, want)
				}
			}
		})
	}
}

// The image of a prompt is in the request to the model, also in the turns after it.
func TestImagesReachTheModel(t *testing.T) {
	testkit.Proves(t, "C2")
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	model := fakellm.New(t)
	h := harness(t, "opencode", model.URL)
	turn := agenttest.Turn(h.Say("answer {{calls}}"))
	turn.Attachments = []agent.Attachment{
		h.Attach(t, "attachments/1/größe.png", "image/png", picture.Bytes()), h.Attach(t, "attachments/1/a.csv", "text/csv", []byte("a;b")),
	}
	for _, text := range []string{"answer 0", "answer 1"} {
		model.Reset()
		if o := h.Do(t, turn); o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), text) {
			t.Fatalf("%+v, and it says %q", o.End, o.Text())
		}
		var images []fakellm.Image
		for _, r := range model.Requests() {
			if !r.Side {
				images = r.Images
			}
		}
		if len(images) != 1 || images[0].MediaType != "image/png" || !bytes.Equal(images[0].Data, picture.Bytes()) {
			t.Errorf("%s: the model got %d images", text, len(images))
		}
		turn = agenttest.Next(turn, turn.Prompt)
		turn.Attachments = nil
	}
}

// A sandbox that an older Berth started has no client inside. The turn says what to do.
func TestSandboxOfAnOlderBerth(t *testing.T) {
	t.Parallel()
	h := agenttest.Harness{Runtime: runtimeOf("goose"), Box: boxtest.New(t, boxtest.Options{Old: true})}
	o := h.Do(t, agenttest.Turn("hello"))
	if o.End.Status != api.TurnFailed || o.End.Code != api.CodeSandboxOutdated || !strings.Contains(o.End.Message, "berth stop") || len(o.Events) > 0 {
		t.Errorf("%+v %+v", o.End, o.Events)
	}
}
