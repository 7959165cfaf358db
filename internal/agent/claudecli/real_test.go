package claudecli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/agent/claudecli"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
	"github.com/berthdev/berth/internal/testkit/claudetest"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// real is the real CLI in a real sandbox, with a model's double behind a service of it.
func real(t *testing.T) (agenttest.Harness, *fakellm.Server) {
	t.Helper()
	model := fakellm.New(t)
	return harness(t, model.URL), model
}

// harness is the real CLI in a real sandbox, which reaches a model's service and has more mounts.
func harness(t *testing.T, model string, mounts ...driver.Mount) agenttest.Harness {
	t.Helper()
	runtime := claudecli.New()
	runtime.Grace = 2 * time.Second
	const inside = "127.0.0.1:8788"
	return agenttest.Harness{
		Runtime: runtime,
		Box: boxtest.New(t, boxtest.Options{
			Mounts:   append(mounts, driver.Mount{Source: claudetest.Dir(t), Target: claudecli.Mount}),
			Services: map[string]string{inside: model},
			Env:      claudetest.Env("http://" + inside),
			Limits:   driver.Limits{MemoryBytes: 2 << 30},
		}),
		Say:     func(text string) string { return "[[chunk 4]][[say " + text + "]]" },
		Write:   func(path, text string) string { return "[[write /workspace/" + path + " :: " + text + "]][[say done]]" },
		Exec:    func(command string) string { return "[[say Running.]][[bash " + command + "]][[say done]]" },
		Session: func(id string) string { return ".berth/claude/projects/-workspace/" + id + ".jsonl" },
	}
}

func TestRealCLIPassesSuite(t *testing.T) {
	testkit.Proves(t, "C9")
	t.Parallel()
	h, _ := real(t)
	agenttest.Run(t, h)
}

// The tokens of every turn are those that the model's service gave, to the unit.
func TestRealCLICountsTokens(t *testing.T) {
	testkit.Proves(t, "C7")
	t.Parallel()
	h, model := real(t)
	check := func(t *testing.T, o agenttest.Outcome, status string) {
		t.Helper()
		want := model.Totals().All()
		got := o.End.Usage
		if got.InputTokens != int64(want.Input) || got.OutputTokens != int64(want.Output) ||
			got.CacheReadTokens != int64(want.CacheRead) || got.CacheWriteTokens != int64(want.CacheCreate) || got.Estimated {
			t.Errorf("counted %+v, in truth %+v", got, want)
		}
		if o.End.Status != status {
			t.Errorf("it ended %+v", o.End)
		}
		model.Reset()
	}
	t.Run("Plain", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn("[[think Hm.]][[say A plain answer.]]"))
		check(t, o, api.TurnCompleted)
		if o.Text() != "A plain answer." || o.End.CostUSD <= 0 {
			t.Errorf("%q %+v", o.Text(), o.End)
		}
	})
	t.Run("Tools", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn("[[write /workspace/a.txt :: one]][[bash cat a.txt; echo two >b.txt]][[next]][[read /workspace/b.txt]][[say {{last_result}}]]"))
		check(t, o, api.TurnCompleted)
		if a, _ := h.File(t, files.WorkingDir, "a.txt"); a != "one" || !strings.Contains(o.Text(), "two") {
			t.Errorf("%q; it says %q", a, o.Text())
		}
	})
	t.Run("SubAgent", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn(`[[say delegating]][[tool Agent {"description":"sub","prompt":"just answer","subagent_type":"general-purpose"}]][[say over]]`))
		check(t, o, api.TurnCompleted)
	})
	t.Run("ThreeTurns", func(t *testing.T) {
		turn := agenttest.Turn("turn {{turn}} [[say this is turn {{turn}} after {{calls}}]]")
		for n, want := range []string{"turn 1 after 0", "turn 2 after 1", "turn 3 after 2"} {
			if n > 0 {
				turn = agenttest.Next(turn, turn.Prompt)
			}
			o := h.Do(t, turn)
			check(t, o, api.TurnCompleted)
			if !strings.Contains(o.Text(), want) {
				t.Errorf("it says %q, not %q", o.Text(), want)
			}
		}
	})
	t.Run("Error", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn("[[bash echo before]][[error 400]]"))
		check(t, o, api.TurnFailed)
		if o.End.Code != api.CodeAgentFailed || !strings.Contains(o.End.Message, "scripted failure 400") || o.Text() != "" {
			t.Errorf("%+v; it says %q", o.End, o.Text())
		}
	})
	t.Run("Retries", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn("[[error 529 x1]][[say recovered]]"))
		check(t, o, api.TurnCompleted)
	})
	t.Run("CutStream", func(t *testing.T) {
		o := h.Do(t, agenttest.Turn("[[chunk 3]][[cut 6]][[faults 1]][[say an answer that is cut in the middle]]"))
		check(t, o, api.TurnCompleted)
		if o.Text() != "an answer that is cut in the middle" {
			t.Errorf("it says %q", o.Text())
		}
	})
	t.Run("CancelInATool", func(t *testing.T) {
		turn := agenttest.Turn("[[say on it]][[bash echo >begun; sleep 600]]")
		h.Start(t, turn)
		h.Awaits(t, "begun")
		h.Cancel(t, turn)
		check(t, h.Read(t, turn, agent.Cursor{}), api.TurnCancelled)
	})
	t.Run("CancelInAnAnswer", func(t *testing.T) {
		turn := agenttest.Turn("[[bash true]][[chunk 3]][[hold middle@6]][[say an answer that nobody hears]]")
		h.Start(t, turn)
		model.WaitHeld(t, "middle")
		h.Cancel(t, turn)
		check(t, h.Read(t, turn, agent.Cursor{}), api.TurnCancelled)
	})
}

func TestCLIThatIsNotInstalled(t *testing.T) {
	h := agenttest.Harness{Runtime: claudecli.New(), Box: boxtest.New(t, boxtest.Options{})}
	o := h.Do(t, agenttest.Turn("anything"))
	if o.End.Code != api.CodeAgentNotInstalled || !strings.HasSuffix(o.End.Message, "berth template install claude_code") || o.End.Again {
		t.Errorf("%+v", o.End)
	}
}
