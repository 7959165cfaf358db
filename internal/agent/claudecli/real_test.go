package claudecli_test

import (
	"fmt"
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

// onEveryVersion runs a test with each version of the real CLI in a real sandbox, and with a model's double.
func onEveryVersion(t *testing.T, test func(*testing.T, agenttest.Harness, *fakellm.Server)) {
	t.Helper()
	for _, version := range claudetest.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			model := fakellm.New(t)
			test(t, harness(t, version, model.URL), model)
		})
	}
}

// harness is the real CLI in a real sandbox, which reaches a model's service and has more mounts.
func harness(t *testing.T, version, model string, mounts ...driver.Mount) agenttest.Harness {
	t.Helper()
	runtime := claudecli.New()
	runtime.Grace = 2 * time.Second
	const inside = "127.0.0.1:8788"
	return agenttest.Harness{
		Runtime: runtime,
		Box: boxtest.New(t, boxtest.Options{
			Mounts:   append(mounts, driver.Mount{Source: claudetest.DirOf(t, version), Target: claudecli.Mount}),
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
	onEveryVersion(t, func(t *testing.T, h agenttest.Harness, _ *fakellm.Server) { agenttest.Run(t, h) })
}

// The tokens of every turn are those that the model's service gave, to the unit.
func TestRealCLICountsTokens(t *testing.T) {
	testkit.Proves(t, "C7")
	t.Parallel()
	onEveryVersion(t, testTokens)
}

func testTokens(t *testing.T, h agenttest.Harness, model *fakellm.Server) {
	check := func(t *testing.T, o agenttest.Outcome, status string) {
		t.Helper()
		marked := status == api.TurnCancelled // a CLI that does not end in time is killed before it can report
		want := model.Totals().All()
		got := o.End.Usage
		if got.InputTokens != int64(want.Input) || got.OutputTokens != int64(want.Output) ||
			got.CacheReadTokens != int64(want.CacheRead) || got.CacheWriteTokens != int64(want.CacheCreate) || got.Estimated && !marked {
			t.Errorf("counted %+v, in truth %+v", got, want)
		}
		if o.End.Status != status {
			t.Errorf("it ended %+v", o.End)
		}
		model.Reset()
	}
	// The CLI may count a call whose answer was cut, by what had come of it.
	checkCut := func(t *testing.T, o agenttest.Outcome, status string, cut int64) {
		t.Helper()
		if got := &o.End.Usage; got.InputTokens == int64(model.Totals().All().Input)+cut && !got.Estimated && o.End.Status == status {
			model.Reset()
			return
		}
		check(t, o, status)
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
		checkCut(t, o, api.TurnCompleted, 100)
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
	t.Run("TurnsBehindACutOne", func(t *testing.T) {
		turn := agenttest.Turn("[[bash echo one]][[say one]]")
		check(t, h.Do(t, turn), api.TurnCompleted)
		for n, cut := range []func(agent.Turn){
			func(turn agent.Turn) { h.Cancel(t, turn) },
			func(turn agent.Turn) { h.Kill(t, turn) },
		} {
			begun := fmt.Sprintf("cut-begun-%d", n)
			turn = agenttest.Next(turn, "[[bash echo >"+begun+"; sleep 600]]")
			h.Start(t, turn)
			h.Awaits(t, begun)
			cut(turn)
			if o := h.Read(t, turn, agent.Cursor{}); o.End.Status == api.TurnCompleted {
				t.Errorf("%+v", o.End)
			}
			h.Cancel(t, turn) // ends what it left
			model.Reset()
			turn = agenttest.Next(turn, "[[bash echo next]][[say next]]")
			check(t, h.Do(t, turn), api.TurnCompleted)
		}
		turn = agenttest.Turn("[[say another session]]")
		check(t, h.Do(t, turn), api.TurnCompleted)
	})
	t.Run("CancelInAnAnswer", func(t *testing.T) {
		turn := agenttest.Turn("[[bash true]][[chunk 3]][[hold middle@6]][[say an answer without a reader]]")
		h.Start(t, turn)
		model.WaitHeld(t, "middle")
		h.Cancel(t, turn)
		checkCut(t, h.Read(t, turn, agent.Cursor{}), api.TurnCancelled, 101)
	})
}

// A turn that the model's service fails says why, with a code that a program can act on.
func TestRealCLISaysWhyATurnFailed(t *testing.T) {
	testkit.Proves(t, "E1")
	t.Parallel()
	onEveryVersion(t, func(t *testing.T, h agenttest.Harness, _ *fakellm.Server) {
		for prompt, want := range map[string]api.Code{
			"[[error 400]]": api.CodeAgentFailed,
			"[[error 400 :: prompt is too long: 210000 tokens > 200000 maximum]]":    api.CodePromptTooLong,
			"[[error 400 :: Your credit balance is too low to access the service.]]": api.CodeModelNoCredit,
			"[[error 401]]": api.CodeModelKeyRefused,
			"[[error 403]]": api.CodeModelDenied,
			"[[error 429 :: Number of request tokens has exceeded your per-minute rate limit]]": api.CodeModelRateLimited,
			"[[error 529]]": api.CodeModelUnavailable,
		} {
			o := h.Do(t, agenttest.Turn(prompt))
			if o.End.Status != api.TurnFailed || o.End.Code != want || o.End.Message == "" || o.Text() != "" {
				t.Errorf("%s: %+v, and it says %q; want %s", prompt, o.End, o.Text(), want)
			}
		}
		o := h.Do(t, agenttest.Turn("[[say abc]]"))
		if o.End.StopReason != "end_turn" {
			t.Errorf("%+v", o.End)
		}
		// A command of the CLI is answered without the model.
		if o = h.Do(t, agenttest.Turn("/cost")); o.End.Status != api.TurnCompleted || !strings.Contains(o.Text(), "Total cost") {
			t.Errorf("%+v, and it says %q", o.End, o.Text())
		}
	})
}

func TestRealCLIKeepsToItsPermissions(t *testing.T) {
	t.Parallel()
	onEveryVersion(t, func(t *testing.T, h agenttest.Harness, _ *fakellm.Server) {
		for mode, want := range map[string]struct{ edits, commands bool }{
			"": {true, true}, "bypassPermissions": {true, true}, "acceptEdits": {true, false}, "plan": {false, false}, "dontAsk": {false, false},
		} {
			turn := agenttest.Turn("[[write /workspace/edit-" + mode + " :: x]][[next]][[bash touch command-" + mode + "; chmod 600 command-" + mode + "]][[say done]]")
			turn.Permissions = mode
			o := h.Do(t, turn)
			_, edits := h.File(t, files.WorkingDir, "edit-"+mode)
			_, commands := h.File(t, files.WorkingDir, "command-"+mode)
			if o.End.Status != api.TurnCompleted || edits != want.edits || commands != want.commands {
				t.Errorf("%q: edits %t, commands %t, want %+v; %+v", mode, edits, commands, want, o.End)
			}
		}
	})
}

// The CLI would try a key that is refused again for minutes.
func TestRealCLIGivesUpARefusedKey(t *testing.T) {
	t.Parallel()
	onEveryVersion(t, func(t *testing.T, h agenttest.Harness, model *fakellm.Server) {
		h.Box.Env = append(h.Box.Env, "CLAUDE_CODE_MAX_RETRIES=10")
		turn := agenttest.Turn("[[error 401]]")
		o := h.Do(t, turn)
		if o.End.Status != api.TurnFailed || o.End.Code != api.CodeModelKeyRefused || o.End.Again {
			t.Errorf("it ended %+v", o.End)
		}
		if asked := len(model.Requests()); asked > 8 {
			t.Errorf("the model's service was asked %d times", asked)
		}
		if again := h.Read(t, turn, agent.Cursor{}); again.End.Code != o.End.Code || again.End.Status != o.End.Status {
			t.Errorf("another reader has %+v", again.End)
		}
		o = h.Do(t, agenttest.Next(turn, "[[say with a good key]]"))
		if o.End.Status != api.TurnCompleted {
			t.Errorf("the turn behind it ended %+v", o.End)
		}
	})
}

func TestCLIThatIsNotInstalled(t *testing.T) {
	h := agenttest.Harness{Runtime: claudecli.New(), Box: boxtest.New(t, boxtest.Options{})}
	o := h.Do(t, agenttest.Turn("anything"))
	if o.End.Code != api.CodeAgentNotInstalled || !strings.HasSuffix(o.End.Message, "berth template install claude_code") || o.End.Again {
		t.Errorf("%+v", o.End)
	}
}
