package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// cutTime is for requests that were cut at the end of the drain to be answered.
	cutTime = 2 * time.Second
	// closeTime bounds the closing of PostgreSQL's connections. One that does not answer takes seconds each.
	closeTime = 2 * time.Second
)

// bounded returns a context that ends some time after ctx has: one bound over all of a shutdown.
func bounded(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(after, cancel) })
	return bound, func() {
		stop()
		cancel()
	}
}

// finish waits for background work, but not beyond the bound. The next server finishes what is left.
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
	s.Engine.Quiesce(bound)
}

// closeStore closes the database. PostgreSQL may be silent, and is not waited for long: it ends what a closed
// connection left.
func (s *System) closeStore() error {
	if s.Store.Engine() == "sqlite" {
		return s.Store.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		s.log.Warn("the database did not answer while its connections were closed")
		return nil
	}
}

// newSchemaDelay is how long a server goes on serving once a newer Berth has migrated the database, for load
// balancers to see that it is not ready and for the newer server to become ready. Migrations only add, so that
// it still works.
const newSchemaDelay = 5 * time.Second

// errNewSchema ends a server whose database was migrated by a newer one.
var errNewSchema = errors.New("the database was migrated by a newer Berth")

// leaveNewSchema drains the server when the schema has become newer than it knows.
func (s *System) leaveNewSchema(ctx context.Context, leave context.CancelCauseFunc) {
	newer := s.Store.WatchSchema(ctx)
	if newer == nil {
		return
	}
	s.log.Error("a newer Berth has migrated the database; this server drains", "error", newer)
	s.Server.Handler.Drain()
	select {
	case <-ctx.Done():
	case <-time.After(newSchemaDelay):
	}
	leave(fmt.Errorf("%w: %w", errNewSchema, newer))
}
