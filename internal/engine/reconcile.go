package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Report counts the due sandboxes of one pass and the results of the work on them.
type Report struct {
	Looked  int // all sandboxes that were due
	Settled int // nothing more to do
	Busy    int // another server has the lease
	Failed  int // not settled; due again
}

// pageSize is the number of rows that one query for sandboxes returns.
const pageSize = 64

// Reconcile works once on every due sandbox. Repeated calls alone fulfil every request; other work on sandboxes only
// makes this faster.
func (e *Engine) Reconcile(ctx context.Context) (total Report, err error) {
	e.opts.Metrics.ReconcilePasses.Inc()
	for ctx.Err() == nil {
		due, err := e.opts.Store.Due(ctx, e.opts.Host, pageSize)
		if err != nil {
			return total, err
		}
		total.add(e.reconcileAll(ctx, due))
		if len(due) < pageSize {
			break
		}
	}
	e.opts.Metrics.ReconcileClaims.Add(float64(total.Looked))
	return total, ctx.Err()
}

func (e *Engine) reconcileAll(ctx context.Context, due []sandbox.Sandbox) Report {
	var (
		g     errgroup.Group
		mu    sync.Mutex
		total Report
	)
	g.SetLimit(e.opts.Workers)
	for _, s := range due {
		g.Go(func() error {
			r := e.reconcileOne(ctx, s.ID)
			mu.Lock()
			defer mu.Unlock()
			total.add(r)
			return nil
		})
	}
	_ = g.Wait()
	return total
}

// reconcileOne works on one sandbox. It does nothing if the context has ended; the sandbox stays due.
func (e *Engine) reconcileOne(ctx context.Context, id string) Report {
	if ctx.Err() != nil {
		return Report{Looked: 1, Failed: 1}
	}
	defer e.working()()
	_, err := e.drive(ctx, id, reconciler, false)
	switch {
	case err == nil:
		return Report{Looked: 1, Settled: 1}
	case errors.Is(err, fault.ErrBusy), errors.Is(err, fault.ErrStale):
		return Report{Looked: 1, Busy: 1}
	}
	e.opts.Logger.WarnContext(ctx, "sandbox is not settled; it is looked at again", slog.String("sandbox_id", id), slog.Any("error", err))
	return Report{Looked: 1, Failed: 1}
}

func (r *Report) add(o Report) {
	r.Looked += o.Looked
	r.Settled += o.Settled
	r.Busy += o.Busy
	r.Failed += o.Failed
}

// Run looks for due sandboxes every interval until the context ends, and works on at most Options.Workers at once. A
// slow sandbox does not delay the others. Run returns without waiting for running work; see Quiesce.
func (e *Engine) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	freed := make(chan struct{}, e.opts.Workers)
	var counted time.Time
	for busy := 0; ; {
		if time.Since(counted) >= countInterval {
			e.countUnsaved(ctx)
			counted = time.Now()
		}
		started := e.start(ctx, e.opts.Workers-busy, freed)
		full := started > 0 && busy+started == e.opts.Workers
		busy += started
		select {
		case <-ctx.Done():
			return
		case <-freed:
			busy--
			if full {
				continue // there may be more due sandboxes
			}
		case <-tick.C:
		}
		for ; len(freed) > 0; busy-- {
			<-freed
		}
	}
}

// start starts work on due sandboxes, at most as many as free, and returns their number. Each sends on freed when it is
// done.
func (e *Engine) start(ctx context.Context, free int, freed chan<- struct{}) int {
	if free == 0 {
		return 0
	}
	e.opts.Metrics.ReconcilePasses.Inc()
	due, err := e.opts.Store.Due(ctx, e.opts.Host, free)
	if err != nil && ctx.Err() == nil {
		e.opts.Metrics.ReconcileErrors.Inc()
		e.opts.Logger.ErrorContext(ctx, "look for due sandboxes", "error", err)
	}
	e.opts.Metrics.ReconcileClaims.Add(float64(len(due)))
	for _, s := range due {
		go func() {
			e.reconcileOne(ctx, s.ID)
			freed <- struct{}{}
		}()
	}
	return len(due)
}

// countInterval is the interval at which unsaved changes are counted for metrics.
const countInterval = 10 * time.Second

// countUnsaved updates the metrics of unsaved changes.
func (e *Engine) countUnsaved(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countInterval)
	defer cancel()
	n, oldest, err := e.opts.Store.CountUnsaved(ctx)
	if err != nil {
		return // not logged here: the scan for due sandboxes logs database errors
	}
	e.opts.Metrics.Unsaved.Set(float64(n))
	age := 0.0
	if n > 0 {
		age = max(0, time.Since(oldest).Seconds())
	}
	e.opts.Metrics.UnsavedSeconds.Set(age)
}
