package acp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// window is a moment of a turn in which something is killed.
type window struct {
	name   string
	prompt string
	await  func(t *testing.T, h agenttest.Harness, model *fakellm.Server, key string)
	worked bool // the agent has shown some work by then
}

func held(t *testing.T, _ agenttest.Harness, model *fakellm.Server, key string) {
	t.Helper()
	model.WaitHeld(t, key)
}

// windows are the moments. KEY stands for a name of the turn's own.
var windows = []window{
	{"BeforeTheAnswer", "[[hold KEY]][[say abc]]", held, false},
	{"InTheAnswer", "[[chunk 4]][[hold KEY@4]][[say abcdefghijklmnopqrstuvwxyz]]", held, true},
	{"InATool", "[[say on it]][[bash echo KEY >>ran; while [ ! -e go-KEY ]; do sleep 0.1; done]][[say done]]",
		func(t *testing.T, h agenttest.Harness, _ *fakellm.Server, key string) {
			t.Helper()
			testkit.Eventually(t, time.Minute, func() error {
				if ran, _ := h.File(t, files.WorkingDir, "ran"); !strings.Contains(ran, key) {
					return fmt.Errorf("the tool does not run: %q", ran)
				}
				return nil
			})
		}, true},
	{"AfterTheTool", "[[bash echo KEY >>ran]][[hold KEY]][[say done]]", held, true},
}

// A kill of the agent or of the client ends the turn, and the next turn knows what was said. A kill of the server
// changes nothing. Nothing is missing, nothing comes twice, and a tool runs once.
func TestKilledAnywhere(t *testing.T) {
	testkit.Proves(t, "C4")
	t.Parallel()
	model := fakellm.New(t)
	h := harness(t, "goose", model.URL)
	for i, w := range windows {
		for _, victim := range []string{"Agent", "Client", "Server"} {
			t.Run(w.name+"/"+victim, func(t *testing.T) {
				key := fmt.Sprintf("%s-%d", strings.ToLower(victim), i)
				turn := agenttest.Turn("§first [[say first]]")
				if o := h.Do(t, turn); o.End.Status != api.TurnCompleted {
					t.Fatalf("%+v", o.End)
				}
				turn = agenttest.Next(turn, "§"+strings.ReplaceAll(w.prompt, "KEY", key))
				h.Start(t, turn)
				w.await(t, h, model, key)
				before := readFor(t, h, turn, w.worked)
				switch victim {
				case "Agent":
					inside(t, h, `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != goose ] || kill -9 "${p#/proc/}"; done`)
				case "Client":
					h.Kill(t, turn)
				case "Server": // another one reads on
					h.Runtime = runtimeOf("goose")
				}
				model.Release(key)
				h.Put(t, "go-"+key, "")
				checkKilled(t, h, turn, before, w, victim)
				h.Cancel(t, turn) // ends the tools that were left
				turn = agenttest.Next(turn, "§[[say turn {{turn}}]]")
				if o := h.Do(t, turn); o.End.Status != api.TurnCompleted || !strings.HasPrefix(o.Text(), "turn ") || o.Text() == "turn 1" {
					t.Errorf("the next turn: %q %+v", o.Text(), o.End)
				}
				if ran, _ := h.File(t, files.WorkingDir, "ran"); strings.Count(ran, key) > 1 {
					t.Errorf("the tool ran again: %q", ran)
				}
			})
		}
	}
}

// readFor reads a running turn, until it has shown work if it has any.
func readFor(t *testing.T, h agenttest.Harness, turn agent.Turn, work bool) (steps []agent.Step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s, err := range h.Runtime.Events(ctx, h.Box.Handle, turn, agent.Cursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
		for _, e := range s.Events {
			if e.Type == api.EventTextDelta || e.Type == api.EventToolCall || !work {
				return steps
			}
		}
	}
	t.Fatalf("it ended: %+v", steps)
	return nil
}

func checkKilled(t *testing.T, h agenttest.Harness, turn agent.Turn, before []agent.Step, w window, victim string) {
	t.Helper()
	whole := h.Read(t, turn, agent.Cursor{})
	var events []api.TurnEvent
	for _, s := range before {
		events = append(events, s.Events...)
	}
	rest := h.Read(t, turn, before[len(before)-1].Cursor)
	if diff := cmp.Diff(whole.Events, append(events, rest.Events...), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read on from a cursor: %s", diff)
	}
	if victim == "Server" {
		if whole.End.Status != api.TurnCompleted {
			t.Errorf("%+v", whole.End)
		}
		return
	}
	// What a client that is killed has not read yet is lost, so that such a turn is never tried again.
	again := victim == "Agent" && !w.worked
	if e := whole.End; e.Status != api.TurnInterrupted || e.Again != again || !e.Usage.Estimated {
		t.Errorf("%+v", e)
	}
}

func inside(t *testing.T, h agenttest.Harness, line string) {
	t.Helper()
	conn, err := h.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if exit, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"/bin/sh", "-c", line}}, guest.Stdio{}); err != nil || exit.Code > 1 {
		t.Fatalf("%+v %v", exit, err)
	}
}
