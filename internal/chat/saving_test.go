package chat_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// saves is an object store and the captures on the machine of all servers, as a Saver has them.
type saves struct {
	mu       sync.Mutex
	captured map[string]bool
	versions []string // committed, in order
	refuse   int      // how many saves fail
	hang     chan struct{}
}

func newSaves() *saves { return &saves{captured: map[string]bool{}} }

func (s *saves) Saves(sandbox.Sandbox) bool { return true }

func (s *saves) Capture(_ context.Context, _ sandbox.Sandbox, turn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.captured[turn] = true
	return nil
}

func (s *saves) Save(ctx context.Context, _ sandbox.Sandbox, owed store.Save) (chat.Saved, error) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return chat.Saved{}, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return chat.Saved{}, errors.New("the store refuses")
	}
	version := "version-of-" + owed.Turn
	switch {
	case slices.Contains(s.versions, version): // by a server that died after it
	case !s.captured[owed.Turn]:
		return chat.Saved{}, errors.New("nothing was captured")
	default:
		s.versions = append(s.versions, version)
	}
	return chat.Saved{Version: version}, nil
}

func (s *saves) Release(_ context.Context, _ sandbox.Sandbox, turn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.captured, turn)
	return nil
}

// stall makes every save hang until the returned function is called.
func (s *saves) stall() (answer func()) {
	hang := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.hang = nil
		s.mu.Unlock()
		close(hang)
	})
}

func (s *saves) committed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.versions)
}

// saved waits until a turn has its version.
func (w *world) saved(id string) {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		t, err := w.db.In(acme).Turns().Get(w.Context(), id)
		if err == nil && (t.Saving || t.Version != "version-of-"+id) {
			err = fmt.Errorf("turn %s has version %q, saving %t", id, t.Version, t.Saving)
		}
		return err
	})
}

// settledSaves waits until nothing is owed.
func (w *world) settledSaves() {
	w.Helper()
	testkit.Eventually(w, patience, func() error {
		due, err := w.db.Saves().Due(w.Context(), "here", 0, 100)
		if n, _, failed := w.db.Saves().CountOwed(w.Context()); failed != nil || n > 0 || len(due) > 0 {
			err = errors.Join(failed, fmt.Errorf("%d saves are owed, %d due", n, len(due)))
		}
		return err
	})
}

// A turn whose agent was never started has changed nothing, so that it owes no save.
func TestTurnThatNeverBeganOwesNoSave(t *testing.T) {
	testkit.Proves(t, "S7")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		runs := r.ask(c, "one wait:go two")
		waits := r.ask(c, "three", queued)
		r.reaches(runs, 2)
		if _, err := r.chat.Cancel(w.Context(), acme, waits.ID, "not needed"); err != nil {
			w.Fatal(err)
		}
		w.agents.let("go")
		if got := last(r.hear(waits, 0)); got.Version != "" || got.VersionPending {
			w.Errorf("%+v", got)
		}
		w.saved(runs.ID)
		w.settledSaves()
		if got := w.saves.committed(); len(got) != 1 {
			w.Errorf("saved %v", got)
		}
	})
}

// A turn ends when its agent does, though the object store does not answer. The next one runs. When the store is
// back, each has its version, once and in order, and the hooks behind the save have run once.
func TestTurnDoesNotWaitForItsSave(t *testing.T) {
	testkit.Proves(t, "S7", "H4")
	onBoth(t, func(w *world) {
		answer := w.saves.stall()
		defer answer()
		r := w.serve()
		c := r.talk()
		var turns []store.Turn
		for range 3 {
			turn := r.ask(c, "one two")
			end := last(r.hear(turn, 0))
			if end.Status != api.TurnCompleted || !end.VersionPending || end.Version != "" || !slices.ContainsFunc(end.Warnings, func(s string) bool { return strings.Contains(s, "not in the object store yet") }) {
				w.Errorf("the turn ended with %+v", end)
			}
			shown, err := w.db.In(acme).Turns().Get(w.Context(), turn.ID)
			if got := turn2api(shown); err != nil || !got.VersionPending || got.Version != "" {
				w.Errorf("the turn is %+v, %v", got, err)
			}
			turns = append(turns, turn)
		}
		if n := len(w.saves.committed()); n != 0 {
			w.Errorf("%d versions were saved in a store that hangs", n)
		}
		answer()
		var want []string
		for _, turn := range turns {
			w.saved(turn.ID)
			want = append(want, "version-of-"+turn.ID)
		}
		w.settledSaves()
		if got := w.saves.committed(); !slices.Equal(got, want) {
			w.Errorf("versions are %v, want %v", got, want)
		}
		w.afterOnce(turns)
		lines, _, err := w.db.In(acme).History(w.Context(), turns[0].Sandbox, 100, 0)
		saved := 0
		for _, l := range lines {
			if l.Event == "saved" {
				saved++
			}
		}
		if err != nil || saved != 3 {
			w.Errorf("the history has %d saves, %v", saved, err)
		}
	})
}

func turn2api(t store.Turn) api.Turn { return chat.Show(t) }

// afterOnce checks that the hooks behind the save ran once for each turn, in order and with its version.
func (w *world) afterOnce(turns []store.Turn) {
	w.Helper()
	var want, got []string
	for _, t := range turns {
		want = append(want, "after "+t.ID+" version-of-"+t.ID+" "+t.Reply)
	}
	w.mu.Lock()
	for _, h := range w.hooked {
		if strings.HasPrefix(h, "after ") {
			got = append(got, h)
		}
	}
	w.mu.Unlock()
	if !slices.Equal(got, want) {
		w.Errorf("hooks behind the save ran for %q, want %q", got, want)
	}
}

// A save that is saved in time is in the last event; one that is refused is tried until it is done.
func TestRefusedSaveIsTriedAgain(t *testing.T) {
	testkit.Proves(t, "S7")
	onBoth(t, func(w *world) {
		r := w.serve()
		c := r.talk()
		quick := r.ask(c, "one")
		// A machine that is busy may take longer than the turn waits.
		if end := last(r.hear(quick, 0)); !end.VersionPending && end.Version != "version-of-"+quick.ID {
			w.Errorf("the turn ended with %+v", end)
		}
		w.saved(quick.ID)
		w.saves.mu.Lock()
		w.saves.refuse = 3
		w.saves.mu.Unlock()
		refused := r.ask(c, "two")
		if end := last(r.hear(refused, 0)); !end.VersionPending || end.Version != "" {
			w.Errorf("the turn ended with %+v", end)
		}
		w.saved(refused.ID)
		w.settledSaves()
		w.afterOnce([]store.Turn{quick, refused})
	})
}

// A server that dies at any point of a save leaves it to the next one: the version is there once, and the turn has it.
func TestSaveOutlivesItsServer(t *testing.T) {
	testkit.Proves(t, "C4", "S7")
	for _, window := range []string{"captured", "before-mark", "owed", "saved", "recorded", "released", "finished"} {
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			crashing(t, func(w *world) {
				first, died := w.dies(window)
				c := first.talk()
				turn := first.ask(c, "one two three")
				died()
				second := w.serve()
				if end := last(second.hear(turn, 0)); end.Status != api.TurnCompleted {
					w.Errorf("the turn ended with %+v", end)
				}
				w.saved(turn.ID)
				w.settledSaves()
				if got := w.saves.committed(); !slices.Equal(got, []string{"version-of-" + turn.ID}) {
					w.Errorf("versions are %v", got)
				}
				if n := len(w.saves.captured); n != 0 {
					w.Errorf("%d captures are left", n)
				}
			})
		})
	}
}

// elsewhere is the Saver of a machine that does not have the sandboxes.
type elsewhere struct {
	*saves
	tried atomic.Int64
}

func (*elsewhere) Capture(context.Context, sandbox.Sandbox, string) error {
	return fault.Errorf("use sandbox", api.CodeWrongHost, "the sandbox is on another machine")
}

func (e *elsewhere) Save(context.Context, sandbox.Sandbox, store.Save) (chat.Saved, error) {
	e.tried.Add(1)
	return chat.Saved{}, fault.Errorf("use sandbox", api.CodeWrongHost, "the sandbox is on another machine")
}

// A save is left to the machine that has the sandbox, also when another one has finished the turn: attempts there can
// only fail, and each would put the save off.
func TestSaveIsLeftToTheMachineOfItsSandbox(t *testing.T) {
	testkit.Proves(t, "S7")
	crashing(t, func(w *world) {
		w.local = true
		there := func(o *chat.Options) { o.Host = "there" }
		first, died := w.dies("finishing", there)
		turn := first.ask(first.talk(), "one two")
		died()
		if err := w.saves.Capture(w.Context(), sandbox.Sandbox{}, turn.ID); err != nil { // the files are still there
			w.Fatal(err)
		}
		far := &elsewhere{saves: w.saves}
		second := w.serve(func(o *chat.Options) { o.Saver = far })
		if end := last(second.hear(turn, 0)); end.Status != api.TurnCompleted || !end.VersionPending {
			w.Errorf("the turn ended with %+v", end)
		}
		w.serve(there)
		w.saved(turn.ID)
		w.settledSaves()
		if n := far.tried.Load(); n != 0 {
			w.Errorf("the machine without the sandbox tried %d times to save it", n)
		}
	})
}

// farAgents is the runtime of a machine that does not have the sandboxes: it cannot read what agents say.
type farAgents struct {
	*agents
	tried atomic.Int64
}

func (f *farAgents) Events(context.Context, *engine.Handle, agent.Turn, agent.Cursor) iter.Seq2[agent.Step, error] {
	return func(yield func(agent.Step, error) bool) {
		f.tried.Add(1)
		yield(agent.Step{}, fault.Errorf("use sandbox", api.CodeWrongHost, "the sandbox is on another machine"))
	}
}

// A server that takes over a turn of a machine that is away gives it back when that machine's server runs again.
func TestTurnGoesBackToTheMachineOfItsSandbox(t *testing.T) {
	testkit.Proves(t, "C4")
	crashing(t, func(w *world) {
		w.local = true
		there := func(o *chat.Options) { o.Host = "there" }
		first := w.serve(there)
		turn := first.ask(first.talk(), "one wait:go two")
		first.reaches(turn, 2)
		first.chat.Abandon()
		first.end()
		far := &farAgents{agents: w.agents}
		w.serve(func(o *chat.Options) { o.Runtimes = map[string]agent.Runtime{"script": far} })
		testkit.Eventually(w, patience, func() error {
			if far.tried.Load() == 0 {
				return errors.New("the turn is not taken over")
			}
			return nil
		})
		if _, err := w.db.Hosts().RenewHost(w.Context(), "there", "", time.Now()); err != nil {
			w.Fatal(err)
		}
		back := w.serve(there)
		w.agents.let("go")
		if end := last(back.hear(turn, 0)); end.Status != api.TurnCompleted {
			w.Errorf("the turn ended with %+v", end)
		}
	})
}
