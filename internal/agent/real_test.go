package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit/boxtest"
)

// dumb is an agent that prints its prompt, and reads nothing of it.
type dumb struct{}

func (dumb) Line(line []byte) ([]api.TurnEvent, bool) {
	return []api.TurnEvent{{Type: api.EventText, Text: string(line)}}, true
}
func (dumb) State() any { return nil }
func (dumb) End() (agent.End, bool) {
	return agent.End{Status: api.TurnCompleted}, false
}

func worker(job agent.Job) *agent.Worker {
	return &agent.Worker{
		Kind: "dumb", Grace: 300 * time.Millisecond,
		Job:  func(t agent.Turn) agent.Job { job.Input = t.Prompt; return job },
		Read: func(agent.Turn, json.RawMessage) (agent.Reader, error) { return dumb{}, nil },
	}
}

func TestWorkerInASandbox(t *testing.T) {
	box := boxtest.New(t, boxtest.Options{Env: []string{"OUTER=1", "INNER=outer"}})
	turn := func(prompt string) agent.Turn {
		return agent.Turn{ID: strings.ToUpper(uuid.NewString()), Attempt: 1, Prompt: prompt}
	}
	read := func(t *testing.T, w *agent.Worker, turn agent.Turn) (text string, end agent.End) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for s, err := range w.Events(ctx, box.Handle, turn, agent.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range s.Events {
				text += e.Text + "\n"
			}
			if s.End != nil {
				end = *s.End
			}
		}
		return text, end
	}
	begin := func(t *testing.T, w *agent.Worker, turn agent.Turn, until string) {
		t.Helper()
		if err := w.Start(t.Context(), box.Handle, turn); err != nil {
			t.Fatal(err)
		}
		for s, err := range w.Events(t.Context(), box.Handle, turn, agent.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range s.Events {
				if e.Text == until {
					return
				}
			}
		}
		t.Fatalf("it never said %s", until)
	}

	t.Run("InputAndEnvironment", func(t *testing.T) {
		w := worker(agent.Job{Argv: []string{"sh", "-c", `cat; echo; echo $OUTER $INNER $HOME $PWD; [ -n "$BERTH_TURN" ]`}, Env: []string{"INNER=inner"}})
		long := turn(strings.Repeat("long prompt ", 100_000))
		begin(t, w, long, "1 inner /home/agent /workspace")
		if text, end := read(t, w, long); !strings.HasPrefix(text, "long prompt long prompt") || len(text) < 1_200_000 || end.Status != api.TurnFailed {
			t.Errorf("%d bytes, %+v", len(text), end)
		}
	})
	t.Run("Aside", func(t *testing.T) {
		w := worker(agent.Job{Prelude: `set -- "$@" "$aside"`, Argv: []string{"sh", "-c", `cat "$0"; stat -c ' %a' "$0"`}, Aside: []byte("a token")})
		next := turn("x")
		begin(t, w, next, "a token 600")
		read(t, w, next)
		home, err := box.Files(t.Context(), files.HomeDir)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		if left, err := home.ReadDir(t.Context(), ".berth/turns", "", 10); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	})
	t.Run("InputsAreRemoved", func(t *testing.T) {
		home, err := box.Files(t.Context(), files.HomeDir)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		const dir = ".berth/turns/"
		old := "turn-" + uuid.NewString() + "-1"
		put := func(name string, age time.Duration) {
			if _, _, err := home.Write(t.Context(), dir+name, strings.NewReader("x"), files.WriteOptions{ModTime: time.Now().Add(-age)}); err != nil {
				t.Fatal(err)
			}
		}
		put(old+".prompt", time.Hour)
		put(old+".prompt.aside", time.Hour)
		put("turn-"+uuid.NewString()+"-1.prompt", 0) // of a turn that is about to start
		put("turn-mine.prompt", time.Hour)           // a user's
		w := worker(agent.Job{Argv: []string{"cat"}})
		asked := turn("prompt")
		if err := w.Start(t.Context(), box.Handle, asked); err != nil {
			t.Fatal(err)
		}
		for s, err := range w.Events(t.Context(), box.Handle, asked, agent.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			if s.End != nil {
				break // as a reader does that has what it wants
			}
		}
		left, err := home.ReadDir(t.Context(), dir, "", 10)
		if err != nil || len(left) != 2 {
			t.Errorf("%v are left, %v", left, err)
		}
		for _, e := range left {
			if strings.Contains(e.Path, old) || strings.Contains(e.Path, agent.ProcessID(asked)) {
				t.Errorf("%s is left", e.Path)
			}
			if err := home.Remove(t.Context(), e.Path, false); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("WrapperThatDoesNotEnd", func(t *testing.T) {
		w := worker(agent.Job{Prelude: "echo begun; while :; do sleep 0.1; done"})
		stuck := turn("x")
		begin(t, w, stuck, "begun")
		if err := w.Cancel(t.Context(), box.Handle, stuck); err != nil {
			t.Error(err)
		}
		if _, end := read(t, w, stuck); end.Status != api.TurnInterrupted || end.Again {
			t.Errorf("%+v", end)
		}
	})
	t.Run("CancelThatIsGivenUp", func(t *testing.T) {
		w := worker(agent.Job{Argv: []string{"sh", "-c", `trap "" INT; echo begun; while :; do sleep 0.1; done`}})
		w.Grace = time.Minute
		stuck := turn("x")
		begin(t, w, stuck, "begun")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := w.Cancel(ctx, box.Handle, stuck); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		w.Grace = time.Millisecond
		if err := w.Cancel(t.Context(), box.Handle, stuck); err != nil {
			t.Error(err)
		}
		if _, end := read(t, w, stuck); end.Status != api.TurnCancelled {
			t.Errorf("%+v", end)
		}
	})
	t.Run("HomeThatCannotBeWritten", func(t *testing.T) {
		home, err := box.Files(t.Context(), files.HomeDir)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		if err := home.Remove(t.Context(), ".berth", true); err != nil {
			t.Fatal(err)
		}
		if err := home.Symlink(t.Context(), "/etc", ".berth"); err != nil {
			t.Fatal(err)
		}
		defer home.Remove(t.Context(), ".berth", true)
		if err := worker(agent.Job{}).Start(t.Context(), box.Handle, turn("x")); fault.CodeOf(err) != api.CodePathOutside {
			t.Error(err)
		}
	})
}
