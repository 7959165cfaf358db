package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sync/errgroup"
)

// Report is what one pass did.
type Report struct {
	Looked  int // sandboxes that were due
	Settled int // of them, now where they should be
	Busy    int // held by somebody else
	Failed  int // not settled; due again
}

const batch = 64

// Reconcile looks once at every sandbox that is due and does what is left to do about it. It is the
// truth behind every wish: requests and wake-ups only make it faster.
func (e *Engine) Reconcile(ctx context.Context) (total Report, err error) {
	e.Metrics.ReconcilePasses.Inc()
	for ctx.Err() == nil {
		due, err := e.Store.Due(ctx, e.Host, batch)
		if err != nil {
			return total, err
		}
		total.add(e.all(ctx, due))
		if len(due) < batch {
			break
		}
	}
	e.Metrics.ReconcileClaims.Add(float64(total.Looked))
	return total, ctx.Err()
}

func (e *Engine) all(ctx context.Context, due []sandbox.Sandbox) Report {
	var (
		g     errgroup.Group
		mu    sync.Mutex
		total Report
	)
	g.SetLimit(e.Workers)
	for _, s := range due {
		g.Go(func() error {
			r := e.one(ctx, s.ID)
			mu.Lock()
			defer mu.Unlock()
			total.add(r)
			return nil
		})
	}
	_ = g.Wait()
	return total
}

// one looks at one sandbox, unless the context has ended: then it is due again soon.
func (e *Engine) one(ctx context.Context, id string) Report {
	if ctx.Err() != nil {
		return Report{Looked: 1, Failed: 1}
	}
	defer e.working()()
	_, err := e.drive(ctx, id, reconciler, false)
	switch {
	case err == nil:
		return Report{Looked: 1, Settled: 1}
	case errors.Is(err, sandbox.ErrBusy), errors.Is(err, sandbox.ErrStale):
		return Report{Looked: 1, Busy: 1}
	}
	e.Logger.WarnContext(ctx, "sandbox is not settled; it is looked at again", slog.String("sandbox_id", id), slog.Any("error", err))
	return Report{Looked: 1, Failed: 1}
}

func (r *Report) add(o Report) {
	r.Looked += o.Looked
	r.Settled += o.Settled
	r.Busy += o.Busy
	r.Failed += o.Failed
}

// Run looks for due sandboxes every interval until the context ends, and works on as many at once as
// there are workers. It never waits for one that is slow, and does not wait for those under way when
// it ends; see Quiesce.
func (e *Engine) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	freed := make(chan struct{}, e.Workers)
	var counted time.Time
	for busy := 0; ; {
		if time.Since(counted) >= countEvery {
			e.countUnsaved(ctx)
			counted = time.Now()
		}
		started := e.start(ctx, e.Workers-busy, freed)
		full := started > 0 && busy+started == e.Workers
		busy += started
		select {
		case <-ctx.Done():
			return
		case <-freed:
			busy--
			if full {
				continue // there may be more where those came from
			}
		case <-tick.C:
		}
		for ; len(freed) > 0; busy-- {
			<-freed
		}
	}
}

// start begins work on at most free due sandboxes. Each frees its place when it is done.
func (e *Engine) start(ctx context.Context, free int, freed chan<- struct{}) int {
	if free == 0 {
		return 0
	}
	e.Metrics.ReconcilePasses.Inc()
	due, err := e.Store.Due(ctx, e.Host, free)
	if err != nil && ctx.Err() == nil {
		e.Metrics.ReconcileErrors.Inc()
		e.Logger.ErrorContext(ctx, "look for due sandboxes", "error", err)
	}
	e.Metrics.ReconcileClaims.Add(float64(len(due)))
	for _, s := range due {
		go func() {
			e.one(ctx, s.ID)
			freed <- struct{}{}
		}()
	}
	return len(due)
}

// countEvery is how old the metrics of unsaved changes may be.
const countEvery = 10 * time.Second

func (e *Engine) countUnsaved(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countEvery)
	defer cancel()
	n, oldest, err := e.Store.Unsaved(ctx)
	if err != nil {
		return // the scan for due sandboxes reports a database that does not answer
	}
	e.Metrics.Unsaved.Set(float64(n))
	age := 0.0
	if n > 0 {
		age = max(0, time.Since(oldest).Seconds())
	}
	e.Metrics.UnsavedSeconds.Set(age)
}
