package acp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/acp"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/acptest"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// harness is a real agent in a real sandbox, which reaches a model's service.
func harness(t *testing.T, name, model string, mounts ...driver.Mount) agenttest.Harness {
	t.Helper()
	runtime := acp.New()
	runtime.Grace = 4 * time.Second
	job := runtime.Job
	runtime.Job = func(t agent.Turn) agent.Job {
		t.Agent, t.Command = name, acptest.Command(name)
		return job(t)
	}
	read := runtime.Read
	runtime.Read = func(t agent.Turn, state json.RawMessage) (agent.Reader, error) { t.Agent = name; return read(t, state) }
	h := agenttest.Harness{
		Runtime: runtime,
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
	for file, text := range acptest.Files(name) {
		h.Put(t, ".berth/"+name+"/"+file, text)
	}
	return h
}

func TestGoosePassesSuite(t *testing.T) {
	testkit.Proves(t, "C9")
	t.Parallel()
	agenttest.Run(t, harness(t, "goose", fakellm.New(t).URL))
}

func TestOpenCodePassesSuite(t *testing.T) {
	testkit.Proves(t, "C9")
	t.Parallel()
	agenttest.Run(t, harness(t, "opencode", fakellm.New(t).URL))
}

// The other agents are large and slow to start, so make torture runs them.
func TestOtherAgentsPassSuite(t *testing.T) {
	others := []string{"claude", "cline", "codex", "copilot", "gemini", "grok", "kilo", "kimi", "pi", "qwen"}
	for _, name := range others[:testkit.Size(t, "acp.agents")] {
		t.Run(name, func(t *testing.T) { agenttest.Run(t, harness(t, name, fakellm.New(t).URL)) })
	}
}
