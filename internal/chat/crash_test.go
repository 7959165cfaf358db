package chat_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// windows are the points at which a server dies.
var windows = []string{
	"accepted", "taken", "ready", "attempt", "before-start", "after-start", "appended", "ended", "finishing",
	"captured", "before-mark", "owed", "finished",
}

// A server that dies at any point of a turn leaves it to the next one: the agent is asked once, and who reads
// sees every event once, in order.
func TestTurnOutlivesItsServer(t *testing.T) {
	testkit.Proves(t, "C4")
	for _, window := range windows {
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			crashing(t, func(w *world) {
				first, died := w.dies(window)
				c := first.talk()
				asked := make(chan store.Turn, 1)
				go func() { // accepting may be where it dies
					turn, err := first.try(c, "one two three four five six seven")
					if err == nil {
						asked <- turn
					}
				}()
				died()
				second := w.serve()
				turn := only(second, c)
				events := second.hear(turn, 0)
				if got := text(events); got != "one two three four five six seven" {
					w.Errorf("said %q", got)
				}
				if got := last(events); got.Status != api.TurnCompleted || got.Usage.OutputTokens != 7 {
					w.Errorf("the turn ended with %+v", got)
				}
				if n := w.agents.starts[turn.ID]; n != 1 {
					w.Errorf("the agent was asked %d times", n)
				}
				if n := w.times("finish " + turn.ID); n != 1 && !(n == 2 && (window == "before-mark" || window == "captured")) {
					w.Errorf("hooks ran %d times after the turn", n)
				}
				if messages := second.settled(c); len(messages) != 2 || messages[1].Text() == "" {
					w.Errorf("messages are %+v", messages)
				}
			})
		})
	}
}

// only is the one turn of a conversation.
func only(r *replica, c store.Conversation) store.Turn {
	r.Helper()
	turns, _, err := r.db.In(acme).Turns().List(r.Context(), c.ID, store.Page{})
	if err != nil || len(turns) != 1 {
		r.Fatalf("%d turns, %v", len(turns), err)
	}
	return turns[0]
}

// An attempt that is on record and was never made is made by the next server; one whose sandbox is another
// one now is not, if anything of it was seen.
func TestTakeoverAfterTheSandboxChanged(t *testing.T) {
	testkit.Proves(t, "O5", "C4")
	for prompt, want := range map[string]struct {
		starts int
		status string
	}{
		"wait:x one":      {2, api.TurnCompleted},   // nothing was seen: it is tried again
		"seen wait:x one": {1, api.TurnInterrupted}, // tools may have run
	} {
		t.Run(prompt, func(t *testing.T) {
			crashing(t, func(w *world) {
				first := w.serve()
				c := first.talk()
				turn := first.ask(c, prompt)
				if strings.HasPrefix(prompt, "seen") {
					first.reaches(turn, 2)
				} else {
					testkit.Eventually(w, patience, func() error {
						w.agents.mu.Lock()
						defer w.agents.mu.Unlock()
						if w.agents.starts[turn.ID] == 0 {
							return fmt.Errorf("the agent is not asked yet")
						}
						return nil
					})
				}
				first.end()
				w.agents.lose(turn.ID)
				if _, err := first.engine.Handle(acme, turn.Sandbox, "test").Terminate(w.Context(), true); err != nil {
					w.Fatal(err)
				}
				second := w.serve()
				w.agents.let("x")
				events := second.hear(turn, 0)
				if got := last(events); got.Status != want.status || w.agents.starts[turn.ID] != want.starts {
					w.Errorf("%s after %d starts, want %s after %d", got.Status, w.agents.starts[turn.ID], want.status, want.starts)
				}
				second.settled(c)
			})
		})
	}
}

// lose makes agents of a turn unknown, as those of an instance that is gone are.
func (a *agents) lose(turn string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, r := range a.runs {
		if strings.HasPrefix(key, turn) {
			r.once.Do(func() { close(r.cancelled) })
			delete(a.runs, key)
		}
	}
}

// Readers that are cut off again and again, and go on at another server, see every event once, in order:
// together exactly the log.
func TestResumedStreamsLoseAndRepeatNothing(t *testing.T) {
	testkit.Proves(t, "C3")
	onBoth(t, func(w *world) {
		replicas := []*replica{w.serve(), w.serve(), w.serve()}
		streams, cuts := testkit.Size(w, "i12.streams")/2, testkit.Size(w, "i12.cuts") // on each of two engines
		var wg sync.WaitGroup
		room := make(chan struct{}, 16)
		for i := range streams {
			wg.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				r := replicas[i%len(replicas)]
				prompt := strings.Repeat("word ", 20) + "end"
				c := r.talk()
				turn := r.ask(c, prompt)
				var got []string
				for cut := range cuts + 1 {
					n := 1 + rand.IntN(8)
					if cut == cuts {
						n = -1
					}
					got = append(got, replicas[rand.IntN(len(replicas))].part(turn, int64(len(got)), n)...)
				}
				if whole := r.part(turn, 0, -1); !slices.Equal(got, whole) {
					w.Errorf("the parts differ from the log:\n%s\n%s", strings.Join(got, "\n"), strings.Join(whole, "\n"))
				}
			})
		}
		wg.Wait()
	})
}

// part reads n events behind a number, or, below zero, all to the end.
func (r *replica) part(t store.Turn, after int64, n int) (events []string) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for e, err := range r.chat.Events(ctx, t, after) {
		if err != nil {
			r.Error(err)
			return events
		}
		if after++; e.Seq != after {
			r.Errorf("event %d came after %d", e.Seq, after-1)
		}
		if events = append(events, string(e.Data)); len(events) == n {
			break
		}
	}
	return events
}

// A holder that slept while another took its turn over writes nothing.
func TestSleeperWritesNothing(t *testing.T) {
	testkit.Proves(t, "C4")
	onBoth(t, func(w *world) {
		asleep, awake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		first := w.serve(func(o *chat.Options) {
			o.Holder = "first"
			o.At = func(point, _ string) {
				if point == "after-start" {
					once.Do(func() { close(asleep); <-awake })
				}
			}
		})
		c := first.talk()
		turn := first.ask(c, "one two three wait:x four")
		<-asleep
		// The lease of a process that sleeps is not renewed; here it is taken away.
		testkit.Eventually(w, patience, func() error {
			return w.db.Leases().Release(w.Context(), store.Lease{Kind: store.LeaseTurn, ID: turn.ID, Holder: "first", Epoch: 1})
		})
		second := w.serve()
		second.reaches(turn, 4)
		close(awake)
		w.agents.let("x")
		events := second.hear(turn, 0)
		if text(events) != "one two three four" || last(events).Status != api.TurnCompleted || w.times("finish "+turn.ID) != 1 {
			w.Errorf("said %q, ended with %+v, hooks ran %d times", text(events), last(events), w.times("finish "+turn.ID))
		}
		second.settled(c)
	})
}
