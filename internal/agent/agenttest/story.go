package agenttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/files"
)

func testAnswer(t *testing.T, h Harness) {
	turn := Turn(h.Say("the quick brown fox"))
	o := h.Do(t, turn)
	ended(t, o, api.TurnCompleted, "")
	if !strings.Contains(o.Text(), "the quick brown fox") {
		t.Errorf("it says %q", o.Text())
	}
	if e := o.Events[0]; e.Type != api.EventStatus || e.Status != agent.StatusSessionStarted || e.Session != turn.Session.ID || e.Model == "" {
		t.Errorf("it begins with %+v", e)
	}
	var deltas, texts string
	for _, e := range o.Events {
		switch e.Type {
		case api.EventTextDelta:
			deltas += e.Text
		case api.EventText:
			texts += e.Text
		}
	}
	if deltas != texts || len(o.eventsOf(api.EventTextDelta)) < 2 {
		t.Errorf("deltas %q, text %q", deltas, texts)
	}
	if u := o.End.Usage; u.InputTokens == 0 || u.OutputTokens == 0 || o.End.Model == "" {
		t.Errorf("%+v", o.End)
	}
	if _, there := h.File(t, files.HomeDir, ".berth/turns/"+agent.ProcessID(turn)+".prompt"); there {
		t.Error("the prompt was left behind")
	}
}

func testTools(t *testing.T, h Harness) {
	o := h.Do(t, Turn(h.Write("made/by tool.txt", "it's \"quoted\" — ünïcödé")))
	ended(t, o, api.TurnCompleted, "")
	if text, _ := h.File(t, files.WorkingDir, "made/by tool.txt"); strings.TrimSpace(text) != "it's \"quoted\" — ünïcödé" {
		t.Errorf("the file holds %q", text)
	}
	calls, results := o.eventsOf(api.EventToolCall), o.eventsOf(api.EventToolResult)
	if len(calls) != 1 || len(results) != 1 || calls[0].ID == "" || calls[0].ID != results[0].ID || results[0].Error || calls[0].Name == "" || len(calls[0].Input) < 2 {
		t.Errorf("calls %+v, results %+v", calls, results)
	}
	o = h.Do(t, Turn(h.Exec("echo to-both; echo and-err >&2; exit 3")))
	ended(t, o, api.TurnCompleted, "")
	if r := o.eventsOf(api.EventToolResult); len(r) != 1 || !h.NoOutput && (!r[0].Error || !strings.Contains(r[0].Text, "to-both") || !strings.Contains(r[0].Text, "and-err")) {
		t.Errorf("%+v", r)
	}
}

// The agent gets the paths of the files that a prompt brings, and whatever is in them leaves the turn as it is.
func testAttachments(t *testing.T, h Harness) {
	turn := Turn(h.Say("seen"))
	turn.Attachments = []agent.Attachment{
		h.Attach(t, "attachments/1/größe.csv", "text/csv", []byte("a;b\n")),
		h.Attach(t, "attachments/1/empty.png", "image/png", nil),
	}
	o := h.Do(t, turn)
	ended(t, o, api.TurnCompleted, "")
	if !strings.Contains(o.Text(), "seen") {
		t.Errorf("it says %q", o.Text())
	}
	if again := h.Do(t, Next(turn, h.Say("more"))); again.End.Status != api.TurnCompleted {
		t.Errorf("the next turn ended %+v", again.End)
	}
	if text, _ := h.File(t, files.WorkingDir, "attachments/1/größe.csv"); text != "a;b\n" {
		t.Errorf("the file holds %q", text)
	}
}

func testResume(t *testing.T, h Harness) {
	turn := Turn(h.Say("first"))
	for n, text := range []string{"first", "second", "third"} {
		if n > 0 {
			turn = Next(turn, h.Say(text))
		}
		o := h.Do(t, turn)
		ended(t, o, api.TurnCompleted, "")
		if !strings.Contains(o.Text(), text) || o.Events[0].Session != turn.Session.ID {
			t.Errorf("turn %d: %q, %+v", n, o.Text(), o.Events[0])
		}
	}
	if _, there := h.File(t, files.WorkingDir, h.Session(turn.Session.ID)); !there {
		t.Errorf("no session at %s", h.Session(turn.Session.ID))
	}
}

func testSessionGone(t *testing.T, h Harness) {
	turn := Turn(h.Say("anything"))
	turn.Session.Resume = true
	o := h.Do(t, turn)
	if !o.End.NoSession || o.End.Again || len(o.Events) > 0 || o.End.Usage != (api.Usage{}) {
		t.Errorf("%+v %+v", o.End, o.Events)
	}
	turn = Turn(h.Say("afresh"))
	turn.History = []api.Message{
		{Role: api.RoleUser, Content: []api.Block{{Type: api.BlockText, Text: "earlier question"}}},
		{Role: api.RoleAssistant, Content: []api.Block{{Type: api.BlockText, Text: "earlier answer"}}},
	}
	o = h.Do(t, turn)
	ended(t, o, api.TurnCompleted, "")
	if !strings.Contains(o.Text(), "afresh") {
		t.Errorf("it says %q", o.Text())
	}
}

// A first turn whose process died is tried again. Its session may have begun.
func testAgain(t *testing.T, h Harness) {
	turn := Turn(h.Say("one"))
	ended(t, h.Do(t, turn), api.TurnCompleted, "")
	turn.Attempt, turn.Prompt = 2, h.Say("two")
	o := h.Do(t, turn)
	ended(t, o, api.TurnCompleted, "")
	if !strings.Contains(o.Text(), "two") {
		t.Errorf("it says %q", o.Text())
	}
}

func testTwice(t *testing.T, h Harness) {
	turn := Turn(h.Exec("echo once >>started-twice"))
	h.Start(t, turn)
	h.Start(t, turn)
	ended(t, h.Read(t, turn, agent.Cursor{}), api.TurnCompleted, "")
	h.Start(t, turn)
	ended(t, h.Read(t, turn, agent.Cursor{}), api.TurnCompleted, "")
	if text, _ := h.File(t, files.WorkingDir, "started-twice"); text != "once\n" {
		t.Errorf("it ran: %q", text)
	}
}

// A reader that stops after each step, and continues from its cursor, sees each event once. So does one that reads the
// turn from any cursor when it is over.
func testCursors(t *testing.T, h Harness) {
	turn := Turn(h.Exec("sleep 0.2; seq 1 50"))
	h.Start(t, turn)
	var at agent.Cursor
	var joined []api.TurnEvent
	for over := false; !over; {
		for s, err := range h.Runtime.Events(t.Context(), h.Box.Handle, turn, at) {
			if err != nil {
				t.Fatal(err)
			}
			joined = append(joined, s.Events...)
			at, over = s.Cursor, s.End != nil
			break
		}
	}
	o := h.Read(t, turn, agent.Cursor{})
	ended(t, o, api.TurnCompleted, "")
	if diff := cmp.Diff(o.Events, joined); diff != "" {
		t.Errorf("cut after every step: %s", diff)
	}
	seen := 0
	for i, s := range o.Steps {
		seen += len(s.Events)
		rest := h.Read(t, turn, s.Cursor)
		if diff := cmp.Diff(o.Events[seen:], rest.Events, cmpopts.EquateEmpty()) + cmp.Diff(o.End, rest.End); diff != "" {
			t.Fatalf("behind step %d of %d: %s", i, len(o.Steps), diff)
		}
	}
	bad := agent.Cursor{State: []byte(`{"agent":[]}`)}
	for _, err := range h.Runtime.Events(t.Context(), h.Box.Handle, turn, bad) {
		if err == nil {
			t.Error("a cursor that is none was taken")
		}
		break
	}
}
