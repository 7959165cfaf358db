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
	"github.com/berthdev/berth/internal/testkit"
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
	t.Run("InputsAreRemovedWithoutAServer", func(t *testing.T) {
		testkit.Proves(t, "E5")
		home, err := box.Files(t.Context(), files.HomeDir)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		left := func(turn agent.Turn) (left []string) {
			for _, name := range []string{".prompt", ".prompt.aside"} {
				if _, err := home.Stat(t.Context(), ".berth/turns/"+agent.ProcessID(turn)+name); err == nil {
					left = append(left, name)
				}
			}
			return left
		}
		conn, err := box.Guest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for name, job := range map[string]agent.Job{
			"ends":        {Argv: []string{"sh", "-c", "cat; [ ! -e ~/.berth/turns/*.prompt ]"}, Aside: []byte("a token")},
			"fails":       {Argv: []string{"false"}, Aside: []byte("a token")},
			"not started": {Prelude: "exit 0", Aside: []byte("a token")},
		} {
			asked := turn("prompt")
			if err := worker(job).Start(t.Context(), box.Handle, asked); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, time.Minute, func() error { // no one reads the turn
				st, err := conn.Process(agent.ProcessID(asked)).Status(t.Context())
				if err == nil && st.Exit == nil {
					err = errors.New("it runs")
				}
				if err == nil && name == "ends" && st.Exit.Code != 0 {
					t.Errorf("the prompt was there while the agent ran")
				}
				return err
			})
			if found := left(asked); len(found) > 0 {
				t.Errorf("%s: %q are left", name, found)
			}
		}
		// A server died before it started the process: the cancel of the turn, or its next attempt, removes the files.
		cancelled, again := turn("prompt"), turn("prompt")
		for _, dead := range []agent.Turn{cancelled, again} {
			for _, name := range []string{".prompt", ".prompt.aside"} {
				if _, _, err := home.Write(t.Context(), ".berth/turns/"+agent.ProcessID(dead)+name, strings.NewReader("x"), files.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w := worker(agent.Job{Argv: []string{"cat"}})
		if err := w.Cancel(t.Context(), box.Handle, cancelled); err != nil {
			t.Fatal(err)
		}
		second := again
		second.Attempt = 2
		if err := w.Start(t.Context(), box.Handle, second); err != nil {
			t.Fatal(err)
		}
		if a, b := left(cancelled), left(again); len(a)+len(b) > 0 {
			t.Errorf("%q and %q are left", a, b)
		}
		read(t, w, second)
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
