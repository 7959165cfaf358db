package turn

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// journal appends to the logs of all turns that this process runs. What many of them have to say while one
// transaction is under way goes into the next one together.
type journal struct {
	db  *store.DB
	hub *hub

	mu      sync.Mutex
	waiting []entry
	writing bool
}

type entry struct {
	store.TurnAppend
	done chan<- error
}

func newJournal(db *store.DB, h *hub) *journal { return &journal{db: db, hub: h} }

// most is how many appends go into one transaction, and how long it may take.
const (
	most       = 200
	appendTime = 30 * time.Second
	// beat is how long after the beginning of a transaction the next one begins at the soonest: with many turns
	// at once, few larger ones leave more of the processor to the agents than many small ones.
	beat = time.Millisecond
)

// append returns once the events are in the log, and tells their readers. A holder that lost its lease has
// appended nothing, and gets ErrStale.
func (j *journal) append(ctx context.Context, a store.TurnAppend) error {
	done := make(chan error, 1)
	j.mu.Lock()
	j.waiting = append(j.waiting, entry{a, done})
	if !j.writing {
		j.writing = true
		go j.write()
	}
	j.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // it may be appended all the same; whoever goes on reads where the log stands
		return context.Cause(ctx)
	}
}

// write writes until nothing waits.
func (j *journal) write() {
	for {
		runtime.Gosched() // what others that were woken together have to say comes along
		j.mu.Lock()
		batch := j.waiting
		if len(batch) == 0 {
			j.writing = false
			j.mu.Unlock()
			return
		}
		j.waiting = nil
		if len(batch) > most {
			batch, j.waiting = batch[:most], batch[most:]
		}
		j.mu.Unlock()
		began := time.Now()
		j.commit(batch)
		time.Sleep(beat - time.Since(began))
	}
}

func (j *journal) commit(batch []entry) {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	appends := make([]store.TurnAppend, len(batch))
	for i, e := range batch {
		appends[i] = e.TurnAppend
	}
	appended, err := j.db.AppendTurns(ctx, appends)
	for i, e := range batch {
		switch {
		case err != nil:
			e.done <- err
		case !appended[i]:
			e.done <- sandbox.Errorf("append events", api.CodeStale, "turn %s now belongs to another holder", e.Lease.ID)
		default:
			j.hub.publish(e.Lease.ID, e.After+1, e.Events)
			e.done <- nil
		}
	}
}
