package chat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/pgtest"
)

// Events are committed without waiting for the disk. A database that crashes may forget some that readers have
// seen; they are read again from the agent's output, and no reader gets them twice.
func TestDatabaseThatForgetsEvents(t *testing.T) {
	testkit.Proves(t, "C4")
	pg, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true, Settings: map[string]string{"wal_writer_delay": "10s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	if err := pg.Exec(t.Context(), "create database turns"); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, store.Options{DatabaseURL: pg.URL("turns")})
	r := w.serve()
	forgotten := int64(0)
	for i := range 3 {
		forgotten += r.forget(pg, fmt.Sprint("gate", i))
	}
	if forgotten == 0 {
		t.Error("the database forgot nothing, so nothing was shown")
	}
	t.Logf("%d events were forgotten", forgotten)
}

// forget has a turn heard while its database crashes, and says how many events that cost it.
func (r *replica) forget(pg *pgtest.Cluster, gate string) (forgotten int64) {
	r.Helper()
	c := r.talk()
	turn := r.ask(c, "one two three wait:"+gate+" four")
	seen, heard := make(chan int64, 1), []api.TurnEvent(nil)
	var listening sync.WaitGroup
	listening.Go(func() {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		for e, err := range r.chat.Events(ctx, turn, 0) {
			if err != nil {
				r.Error(err)
				return
			}
			if heard = append(heard, decoded(r, e.Data)); last(heard).Text == "three" {
				seen <- e.Seq
			}
		}
	})
	three := <-seen
	if err := errors.Join(pg.Kill(), pg.Start(r.Context())); err != nil {
		r.Fatal(err)
	}
	testkit.Eventually(r, patience, func() error {
		parts, err := r.db.TurnRuns().ReadLog(r.Context(), turn.ID, 0, 1<<20)
		if len(parts) > 0 {
			end := parts[len(parts)-1]
			forgotten = three - end.First - int64(len(end.Events)) + 1
		}
		return err
	})
	var behind []string
	listening.Go(func() { behind = r.part(turn, three, -1) }) // who comes back is ahead of the log
	r.agents.let(gate)
	listening.Wait()
	if len(behind) == 0 || !strings.Contains(behind[0], `"four"`) {
		r.Errorf("who came back heard %q", behind)
	}
	for what, events := range map[string][]api.TurnEvent{"who listened": heard, "who came later": r.hear(turn, 0)} {
		if text(events) != "one two three four" || last(events).Status != api.TurnCompleted {
			r.Errorf("%s heard %q, and then %+v", what, text(events), last(events))
		}
	}
	r.settled(c)
	return forgotten
}
