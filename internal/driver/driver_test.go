package driver_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/guest"
)

// stub is a driver whose calls are what the test makes of them; without a say they succeed.
type stub struct {
	create  func(try int) (driver.Status, error)
	call    func(ctx context.Context, try int) error
	entries func(try int) ([]driver.Status, error)

	mu    sync.Mutex
	tries int
}

func (s *stub) Kind() string { return "stub" }

func (s *stub) do(ctx context.Context) error {
	s.mu.Lock()
	s.tries++
	try := s.tries
	s.mu.Unlock()
	if s.call == nil {
		return nil
	}
	return s.call(ctx, try)
}

func (s *stub) Create(context.Context, driver.Spec) (driver.Status, error) {
	s.tries++
	return s.create(s.tries)
}

func (s *stub) Inspect(ctx context.Context, id driver.ID) (driver.Status, error) {
	return driver.Status{ID: id}, s.do(ctx)
}

func (s *stub) Destroy(ctx context.Context, _ driver.ID) error { return s.do(ctx) }

func (s *stub) List(context.Context, driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		s.tries++
		entries, err := s.entries(s.tries)
		for _, st := range entries {
			if !yield(st, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Status{}, err)
		}
	}
}

// able is a stub with every ability.
type able struct{ stub }

func (a *able) Stop(ctx context.Context, _ driver.ID) error { return a.do(ctx) }
func (a *able) Start(ctx context.Context, id driver.ID) (driver.Status, error) {
	return driver.Status{ID: id}, a.do(ctx)
}
func (a *able) Freeze(ctx context.Context, _ driver.ID) error              { return a.do(ctx) }
func (a *able) Thaw(ctx context.Context, _ driver.ID) error                { return a.do(ctx) }
func (a *able) Guest(ctx context.Context, _ driver.ID) (guest.Conn, error) { return nil, a.do(ctx) }
func (a *able) Output(ctx context.Context, _ driver.ID, _ string, after int64) iter.Seq2[guest.Chunk, error] {
	return func(yield func(guest.Chunk, error) bool) { yield(guest.Chunk{Next: after + 1}, a.do(ctx)) }
}
func (a *able) Files(ctx context.Context, _ driver.ID, _ string) (files.FS, error) {
	return nil, a.do(ctx)
}

// decorators are all there are, doing as little as they can.
var decorators = map[string]func(driver.Driver) driver.Driver{
	"retry":   func(d driver.Driver) driver.Driver { return driver.WithRetry(d, driver.Backoff{}) },
	"limit":   func(d driver.Driver) driver.Driver { return driver.WithLimit(d, 8) },
	"metrics": func(d driver.Driver) driver.Driver { return driver.WithMetrics(d, ignore) },
	"all": func(d driver.Driver) driver.Driver {
		return driver.WithRetry(driver.WithLimit(driver.WithMetrics(d, ignore), 8), driver.Backoff{})
	},
}

func ignore(_, _, _ string, _ time.Duration) {}

// A decorated driver is a driver.
func TestDecoratedDriverPassesSuite(t *testing.T) {
	dirs := map[driver.Driver]string{}
	open := func(t *testing.T, dir string) driver.Driver {
		d, err := fake.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		return decorators["all"](d)
	}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			dir := t.TempDir()
			d := open(t, dir)
			dirs[d] = dir
			return d
		},
		Reopen: func(t *testing.T, d driver.Driver) driver.Driver { return open(t, dirs[d]) },
	})
}

func list(ctx context.Context, d driver.Driver) ([]driver.ID, error) {
	var ids []driver.ID
	for st, err := range d.List(ctx, driver.Selector{}) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, st.ID)
	}
	return ids, nil
}

func statuses(ids ...driver.ID) []driver.Status {
	var sts []driver.Status
	for _, id := range ids {
		sts = append(sts, driver.Status{ID: id})
	}
	return sts
}

func entriesOf(ids ...driver.ID) func(int) ([]driver.Status, error) {
	return func(int) ([]driver.Status, error) { return statuses(ids...), nil }
}

func transient(n int) error { return &driver.TransientError{Err: fmt.Errorf("try %d", n)} }
