package chat

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// journal appends to the logs of all turns that this process runs. Appends that arrive during a transaction share the
// next transaction.
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

// Limits of one transaction: its appends and its time.
const (
	maxAppends = 200
	appendTime = 30 * time.Second
	// batchInterval is the shortest time between the starts of two transactions. Few large transactions leave more processor
	// time to the agents than many small ones.
	batchInterval = time.Millisecond
)

// append returns once the events are in the log and announced to the turn's readers. If the holder has lost its lease,
// append stores nothing and returns ErrStale.
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
	case <-ctx.Done(): // the events may still be appended; the next holder reads the log's length
		return context.Cause(ctx)
	}
}

// write commits batches until no append is waiting.
func (j *journal) write() {
	for {
		runtime.Gosched() // appends of other goroutines that were woken at the same time join the batch
		j.mu.Lock()
		batch := j.waiting
		if len(batch) == 0 {
			j.writing = false
			j.mu.Unlock()
			return
		}
		j.waiting = nil
		if len(batch) > maxAppends {
			batch, j.waiting = batch[:maxAppends], batch[maxAppends:]
		}
		j.mu.Unlock()
		began := time.Now()
		j.commit(batch)
		time.Sleep(batchInterval - time.Since(began))
	}
}

func (j *journal) commit(batch []entry) {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	appends := make([]store.TurnAppend, len(batch))
	for i, e := range batch {
		appends[i] = e.TurnAppend
	}
	appended, err := j.db.TurnRuns().Append(ctx, appends)
	for i, e := range batch {
		switch {
		case err != nil:
			e.done <- err
		case !appended[i]:
			e.done <- fault.Errorf("append events", api.CodeStale, "turn %s now belongs to another holder", e.Lease.ID)
		default:
			j.hub.publish(e.Lease.ID, e.After+1, e.Events)
			e.done <- nil
		}
	}
}
