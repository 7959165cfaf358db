package sandbox

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/testkit"
)

// legal is the matrix written a second time, by hand, so that a slip in one shows.
var legal = map[State]string{
	Pending:     "begin>creating end>terminating",
	Creating:    "begin>creating ready>running lost>terminated fail>error end>terminating",
	Running:     "sick>unhealthy stop>stopping halted>stopped lost>terminated fail>error end>terminating",
	Unhealthy:   "ready>running start>starting stop>stopping halted>stopped lost>terminated fail>error end>terminating",
	Stopping:    "halted>stopped lost>terminated end>terminating",
	Stopped:     "start>starting lost>terminated fail>error end>terminating",
	Starting:    "begin>starting start>starting ready>running stop>stopping halted>stopped lost>terminated fail>error end>terminating",
	Archived:    "begin>starting end>terminating",
	Terminating: "final>terminating ended>terminated archive>archived",
	Terminated:  "begin>creating",
	Failed:      "begin>creating start>starting stop>stopping halted>stopped lost>terminated fail>error end>terminating",
}

func TestMatrixEveryPair(t *testing.T) {
	testkit.Proves(t, "O6")
	for _, from := range States {
		allowed := strings.Fields(legal[from])
		for _, ev := range Events {
			to, err := Next(from, ev)
			want := slices.IndexFunc(allowed, func(w string) bool { return len(w) > len(ev) && w[:len(ev)+1] == string(ev)+">" })
			switch {
			case want < 0 && fault.CodeOf(err) != api.CodeIllegalTransition:
				t.Errorf("%s in %s must be refused, got %q, %v", ev, from, to, err)
			case want >= 0 && (err != nil || allowed[want] != string(ev)+">"+string(to)):
				t.Errorf("%s in %s: got %q, %v, want %s", ev, from, to, err, allowed[want])
			}
		}
	}
}

func TestEveryStateHasBothProjections(t *testing.T) {
	testkit.Proves(t, "O6")
	project := []string{"PENDING", "CREATING", "RUNNING", "UNHEALTHY", "STOPPED", "TERMINATED", "ERROR"}
	thread := []string{"creating", "active", "resuming", "paused", "destroyed", "error"}
	for _, s := range States {
		if !slices.Contains(project, s.ProjectStatus()) {
			t.Errorf("%s: project status %q", s, s.ProjectStatus())
		}
		if !slices.Contains(thread, s.ThreadStatus()) {
			t.Errorf("%s: thread status %q", s, s.ThreadStatus())
		}
	}
}

func TestErrorMatchesByCode(t *testing.T) {
	err := fault.Errorf("commit sandbox", api.CodeStale, "epoch 3, now 4")
	if !errors.Is(err, fault.ErrStale) || errors.Is(err, fault.ErrNotFound) {
		t.Errorf("errors.Is does not go by code: %v", err)
	}
	if err.Error() != "commit sandbox: epoch 3, now 4" || !err.Retry {
		t.Errorf("got %q, retry %v", err, err.Retry)
	}
	if got := (&fault.Error{Op: "read row", Code: api.CodeNotFound}).Error(); got != "read row: Not found" {
		t.Errorf("got %q", got)
	}
	if got := (&fault.Error{Err: errors.New("bare")}).Error(); got != "bare" {
		t.Errorf("got %q", got)
	}
	if fault.CodeOf(errors.New("x")) != api.CodeInternal {
		t.Error("a foreign error is internal")
	}
}
