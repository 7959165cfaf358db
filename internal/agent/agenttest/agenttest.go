// Package agenttest is the test suite for every [agent.Runtime], on a real sandbox of this machine.
//
// [Run] runs it. The tests of each runtime supply the prompts, because an agent without a model needs other words than
// an agent with a fake model.
package agenttest

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

// Harness holds the runtime under test, its sandbox and its prompts.
type Harness struct {
	Runtime agent.Runtime
	Box     *boxtest.Box

	// Functions that return prompts: to say a text, to write a file of the workspace, and to run a command there.
	Say   func(text string) string
	Write func(path, text string) string
	Exec  func(command string) string

	// NoOutput is true for agents that show neither the output of commands nor their failures.
	NoOutput bool

	// Session returns the path of a session's file in the workspace.
	Session func(id string) string
}

// patience limits each wait. It is long because other tests may use the machine too.
const patience = 2 * time.Minute

var cases = []struct {
	name string
	test func(t *testing.T, h Harness)
}{
	{"Answer", testAnswer},
	{"ToolsWriteFiles", testTools},
	{"Attachments", testAttachments},
	{"Resume", testResume},
	{"SessionThatIsGone", testSessionGone},
	{"SecondAttemptOfAFirstTurn", testAgain},
	{"StartedTwice", testTwice},
	{"EveryCursor", testCursors},
	{"CancelInATool", testCancel},
	{"CancelToolsThatDoNotListen", testStubborn},
	{"CancelWhatDoesNotRun", testCancelNothing},
	{"Killed", testKilled},
	{"Deadline", testDeadline},
	{"SandboxStopped", testStopped},
	{"SandboxReplaced", testReplaced},
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, h) })
	}
}

// Turn returns the first turn of a new session.
func Turn(prompt string) agent.Turn {
	return agent.Turn{ID: uuid.NewString(), Attempt: 1, Prompt: prompt, Session: agent.Session{ID: uuid.NewString()}}
}

// Next returns another turn of the same session.
func Next(t agent.Turn, prompt string) agent.Turn {
	t.ID, t.Prompt, t.Session.Resume = uuid.NewString(), prompt, true
	return t
}

// Outcome is the rest of a turn after a cursor: its steps, its events and its end.
type Outcome struct {
	Steps  []agent.Step
	Events []api.TurnEvent
	End    agent.End
}

// Text returns the agent's answer.
func (o Outcome) Text() string {
	var f agent.Fold
	f.Add(o.Events...)
	return api.Message{Content: f.Blocks()}.Text()
}

// eventsOf returns the events of one type.
func (o Outcome) eventsOf(kind string) (found []api.TurnEvent) {
	for _, e := range o.Events {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

// Start begins a turn.
func (h Harness) Start(t testing.TB, turn agent.Turn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.Runtime.Start(ctx, h.Box.Handle, turn); err != nil {
		t.Fatalf("start: %v", err)
	}
}

// Read reads a turn from a cursor to its end.
func (h Harness) Read(t testing.TB, turn agent.Turn, after agent.Cursor) (o Outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at := after.Offset
	for s, err := range h.Runtime.Events(ctx, h.Box.Handle, turn, after) {
		if err != nil {
			t.Fatalf("read: %v (so far %+v)", err, o.Events)
		}
		if s.Cursor.Offset < at {
			t.Errorf("the cursor goes back from %d to %d", at, s.Cursor.Offset)
		}
		at = s.Cursor.Offset
		o.Steps = append(o.Steps, s)
		o.Events = append(o.Events, s.Events...)
		if s.End != nil {
			o.End = *s.End
		}
	}
	if n := len(o.Steps); n == 0 || o.Steps[n-1].End == nil {
		t.Fatalf("the turn has no end: %+v", o.Events)
	}
	return o
}

// Do begins a turn and reads it to its end.
func (h Harness) Do(t testing.TB, turn agent.Turn) Outcome {
	t.Helper()
	h.Start(t, turn)
	return h.Read(t, turn, agent.Cursor{})
}

// Cancel cancels a turn.
func (h Harness) Cancel(t testing.TB, turn agent.Turn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.Runtime.Cancel(ctx, h.Box.Handle, turn); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// Kill ends the process of a turn with SIGKILL.
func (h Harness) Kill(t testing.TB, turn agent.Turn) {
	t.Helper()
	conn, err := h.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Process(agent.ProcessID(turn)).Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// File reads a file of the sandbox. It is not ok if the file cannot be opened.
func (h Harness) File(t testing.TB, root, path string) (text string, ok bool) {
	t.Helper()
	fs, err := h.Box.Files(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	f, err := fs.Open(t.Context(), path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), true
}

// Attach writes a file of the workspace and returns it as an attachment.
func (h Harness) Attach(t testing.TB, path, mediaType string, data []byte) agent.Attachment {
	t.Helper()
	h.Put(t, path, string(data))
	return agent.Attachment{
		Name: filepath.Base(path), Path: guest.Workspace + "/" + path, MediaType: mediaType, Size: int64(len(data)), Inline: agent.IsImage(mediaType),
	}
}

// Put writes a file of the workspace.
func (h Harness) Put(t testing.TB, path, text string) {
	t.Helper()
	fs, err := h.Box.Files(t.Context(), files.WorkingDir)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	if _, _, err := fs.Write(t.Context(), path, strings.NewReader(text), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// sees waits for an event of the turn. What an agent has printed may be read a moment later than its tools run.
func (h Harness) sees(t testing.TB, turn agent.Turn, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for s, err := range h.Runtime.Events(ctx, h.Box.Handle, turn, agent.Cursor{}) {
		if err != nil {
			t.Fatalf("read the turn: %v", err)
		}
		if slices.ContainsFunc(s.Events, func(e api.TurnEvent) bool { return e.Type == kind }) {
			return
		}
	}
	t.Fatalf("the turn ended without the event %s", kind)
}

// Awaits waits for a file of the workspace.
func (h Harness) Awaits(t testing.TB, path string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if _, ok := h.File(t, files.WorkingDir, path); !ok {
			return fmt.Errorf("there is no %s", path)
		}
		return nil
	})
}

// sh runs a line of shell in the sandbox.
func (h Harness) sh(t testing.TB, line string) string {
	t.Helper()
	conn, err := h.Box.Guest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var out strings.Builder
	if _, err := conn.Run(t.Context(), guest.Cmd{Argv: []string{"/bin/sh", "-c", line}}, guest.Stdio{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// nothingRuns fails if a process of the sandbox has the text in its command line.
func (h Harness) nothingRuns(t testing.TB, text string) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if found := h.sh(t, `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' 2>/dev/null <$f; echo; done | grep -F '`+text+"' | grep -v grep"); found != "" {
			return fmt.Errorf("it runs: %s", found)
		}
		return nil
	})
}

// ended fails unless the turn ended with this status and code.
func ended(t testing.TB, o Outcome, status string, code api.Code) {
	t.Helper()
	if o.End.Status != status || o.End.Code != code {
		t.Errorf("it ended %+v, not %s %s", o.End, status, code)
	}
}
