package agenttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/guest"
)

func testCancel(t *testing.T, h Harness) {
	turn := Turn(h.Exec("echo >cancel-begun; sleep 601; echo >cancel-over"))
	h.Start(t, turn)
	h.Awaits(t, "cancel-begun")
	h.Cancel(t, turn)
	o := h.Read(t, turn, agent.Cursor{})
	ended(t, o, api.TurnCancelled, "")
	if len(o.eventsOf(api.EventToolCall)) != 1 {
		t.Errorf("%+v", o.Events)
	}
	h.nothingRuns(t, "sleep 601")
	h.Cancel(t, turn)
	o = h.Do(t, Next(turn, h.Say("still here")))
	ended(t, o, api.TurnCompleted, "")
	if !strings.Contains(o.Text(), "still here") {
		t.Errorf("it says %q", o.Text())
	}
}

// Tools that ignore signals, and tools that left their process group, end with the turn.
func testStubborn(t *testing.T, h Harness) {
	turn := Turn(h.Exec(`trap "" INT TERM HUP; setsid sleep 602 & setsid sh -c 'trap "" INT TERM; while :; do sleep 603; done' & echo >stubborn-begun; while :; do sleep 604; done`))
	h.Start(t, turn)
	h.Awaits(t, "stubborn-begun")
	h.Cancel(t, turn)
	ended(t, h.Read(t, turn, agent.Cursor{}), api.TurnCancelled, "")
	for _, text := range []string{"sleep 602", "sleep 603", "sleep 604"} {
		h.nothingRuns(t, text)
	}
}

func testCancelNothing(t *testing.T, h Harness) {
	h.Cancel(t, Turn("never begun"))
	turn := Turn(h.Say("done"))
	ended(t, h.Do(t, turn), api.TurnCompleted, "")
	h.Cancel(t, turn)
	ended(t, h.Read(t, turn, agent.Cursor{}), api.TurnCompleted, "")
}

func testKilled(t *testing.T, h Harness) {
	turn := Turn(h.Exec("echo >killed-begun; sleep 605"))
	h.Start(t, turn)
	h.Awaits(t, "killed-begun")
	h.sees(t, turn, api.EventToolCall)
	h.Kill(t, turn)
	o := h.Read(t, turn, agent.Cursor{})
	ended(t, o, api.TurnInterrupted, api.CodeTurnInterrupted)
	if o.End.Again || len(o.eventsOf(api.EventToolCall)) != 1 || !o.End.Usage.Estimated {
		t.Errorf("%+v %+v", o.End, o.Events)
	}
	h.Cancel(t, turn) // kills the tools that the agent left running
	h.nothingRuns(t, "sleep 605")
}

func testDeadline(t *testing.T, h Harness) {
	turn := Turn(h.Exec("echo >deadline-begun; sleep 606"))
	turn.Seconds = 3
	h.Start(t, turn)
	o := h.Read(t, turn, agent.Cursor{})
	ended(t, o, api.TurnFailed, api.CodeTurnTimeout)
	if o.End.Again || !strings.Contains(o.End.Message, "3s") {
		t.Errorf("%+v", o.End)
	}
	h.Cancel(t, turn)
	h.nothingRuns(t, "sleep 606")
}

// A sandbox that ends while its agent works ends the turn. The output so far can still be read.
func testStopped(t *testing.T, h Harness) {
	turn := Turn(h.Exec("echo >stopped-begun; sleep 607"))
	h.Start(t, turn)
	h.Awaits(t, "stopped-begun")
	h.sees(t, turn, api.EventToolCall)
	if _, err := h.Box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := h.Read(t, turn, agent.Cursor{})
	ended(t, o, api.TurnInterrupted, api.CodeTurnInterrupted)
	if o.End.Again || len(o.eventsOf(api.EventToolCall)) != 1 {
		t.Errorf("%+v", o.End)
	}
	// The sandbox starts again for the next turn.
	o = h.Do(t, Turn(h.Say("back again")))
	ended(t, o, api.TurnCompleted, "")
}

// A new instance of a sandbox has no process of a turn that ran in the earlier instance.
func testReplaced(t *testing.T, h Harness) {
	turn := Turn(h.Say("x"))
	for s, err := range h.Runtime.Events(t.Context(), h.Box.Handle, turn, agent.Cursor{}) {
		if !errors.Is(err, guest.ErrNoProcess) {
			t.Errorf("of a turn that this sandbox knows nothing of it says %+v, %v", s, err)
		}
	}
	o := h.Read(t, turn, agent.Cursor{Offset: 100, State: []byte(`{"seen":true}`)})
	if o.End.Again {
		t.Error("it has worked, and may be tried again")
	}
	ended(t, h.Do(t, turn), api.TurnCompleted, "")
	o = h.Read(t, turn, agent.Cursor{Offset: 1 << 30})
	ended(t, o, api.TurnInterrupted, api.CodeTurnInterrupted)
}
