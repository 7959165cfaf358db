package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/cli/ui"
)

const firstID = "01970e4b-0000-7000-8000-000000000001"

// stuckServer has one sandbox, scratch, that its driver does not end.
func stuckServer(t *testing.T) *fakeServer {
	t.Helper()
	f := newFakeServer(t)
	newShell(t, f).ok("create", "scratch", "-q")
	f.stuck = &api.SandboxError{Code: api.CodeDriverUnreachable, Message: "the engine is asleep\x1b[2J"}
	return f
}

// rm runs the command with little patience.
func (s *shell) rm(ctx context.Context, asJSON bool, refs ...string) (result, error) {
	var out, err bytes.Buffer
	deps := s.forFrame()
	deps.Stdout, deps.Stderr = &out, &err
	a := newApp(deps)
	a.DeleteTimeout = 50 * time.Millisecond
	failure := a.run(ctx, append([]string{"rm", fmt.Sprintf("--json=%v", asJSON)}, refs...)...)
	return result{out: out.String(), err: err.String()}, failure
}

func TestRmThatWaitsForItsLastSaveNamesTheWayOut(t *testing.T) {
	f := stuckServer(t)
	f.stuck = &api.SandboxError{Code: api.CodeBlobFull, Message: "no space left"}
	r, err := newShell(t, f).rm(t.Context(), false, "scratch")
	if want := "scratch is being deleted: no space left; repeat it with --no-save to delete it without its last save; watch it with 'berth get " + firstID + "'\n"; err != nil || r.out != want {
		t.Errorf("%v, %+v; want %q", err, r, want)
	}
}

func TestRmOfWhatDoesNotEndSaysWhyAndHowToWatchIt(t *testing.T) {
	f := stuckServer(t)
	s := newShell(t, f)
	r, err := s.rm(t.Context(), false, "scratch")
	if want := "scratch is being deleted: the engine is asleep\\x1b[2J; watch it with 'berth get " + firstID + "'\n"; err != nil || r.out != want || r.err != "" {
		t.Errorf("%v, %+v; want %q", err, r, want)
	}
	contains(t, "get", s.ok("get", firstID), "terminating", "the engine is asleep")
	r, err = s.rm(t.Context(), true, firstID)
	if got := decode[map[string][]string](t, r.out); err != nil || fmt.Sprint(got) != "map[deleted:[] deleting:["+firstID+"]]" {
		t.Errorf("--json: %v, %v", err, got)
	}
}

func TestRmShowsTheStateAtATerminal(t *testing.T) {
	f := stuckServer(t)
	m := newTerminal(t)
	s := newShell(t, f).at(m)
	frame := newApp(s.forFrame())
	frame.DeleteTimeout = 2 * time.Second
	if err := frame.run(t.Context(), "rm", "--yes", "scratch"); err != nil {
		t.Fatal(err)
	}
	m.Wait("scratch is being deleted: the engine is asleep")
	contains(t, "screen", m.Text(), "⠋ deleting scratch", "deleting scratch: terminating")
}

func TestInterruptedRmSaysThatTheServerGoesOn(t *testing.T) {
	f := stuckServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	s := newShell(t, f)
	frame := newApp(s.forFrame())
	var words strings.Builder
	frame.Err = ui.Stream{Writer: &words}
	if err := frame.run(ctx, "rm", "scratch"); err == nil {
		t.Error("no error")
	}
	contains(t, "stderr", words.String(), "the server may go on with it: 'berth get "+firstID+"'")
}
