package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// cutAnswerTime is the time to answer requests that were cancelled at the end of the drain.
	cutAnswerTime = 2 * time.Second
	// closeTimeout limits the closing of PostgreSQL's connections: if the database does not answer, each takes seconds.
	closeTimeout = 2 * time.Second
)

// bounded returns a context that ends the given time after ctx has ended. It limits a whole shutdown.
func bounded(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(after, cancel) })
	return bound, func() {
		stop()
		cancel()
	}
}

// finish waits until the background work is done or bound ends. The next server finishes the rest.
func (s *System) finish(bound context.Context, work *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-bound.Done():
		s.log.Warn("left background work unfinished; the next server finishes it")
	}
	s.engine.Quiesce(bound)
}

// closeStore closes the database. It waits at most closeTimeout for PostgreSQL, which may not answer.
func (s *System) closeStore() error {
	if s.store.Engine() == "sqlite" {
		return s.store.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- s.store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTimeout):
		s.log.Warn("the database did not answer while its connections were closed")
		return nil
	}
}

// newSchemaDelay is the time for which a server continues after a newer version of Berth has migrated the database. Load
// balancers notice in this time that it is not ready, and the newer server becomes ready. The older server still works,
// because migrations only add to the schema.
const newSchemaDelay = 5 * time.Second

// errNewSchema is the error of a server that ends because a newer version of Berth has migrated the database.
var errNewSchema = errors.New("the database was migrated by a newer Berth")

// leaveNewSchema waits until the schema is newer than this program. It then calls drain, and leave after newSchemaDelay.
func (s *System) leaveNewSchema(ctx context.Context, drain func(), leave context.CancelCauseFunc) {
	newer := s.store.WatchSchema(ctx)
	if newer == nil {
		return
	}
	s.log.Error("a newer Berth has migrated the database; this one drains", "error", newer)
	drain()
	select {
	case <-ctx.Done():
	case <-time.After(newSchemaDelay):
	}
	leave(fmt.Errorf("%w: %w", errNewSchema, newer))
}
