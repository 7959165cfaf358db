package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
)

// Down stops every sandbox of this machine, of all tenants, and keeps their files. It counts sandboxes that cannot be
// stopped as failed and continues. The next use of a sandbox starts it again.
func (e *Engine) Down(ctx context.Context, actor string) (stopped, failed int, err error) {
	var done, not atomic.Int64
	for after := ""; ; {
		page, err := e.opts.Store.ListRunning(ctx, e.opts.Host, after, pageSize)
		if err != nil {
			return int(done.Load()), int(not.Load()), err
		}
		var g errgroup.Group
		g.SetLimit(e.opts.Workers)
		for _, s := range page {
			g.Go(func() error {
				if err := e.down(ctx, s, actor); err != nil {
					not.Add(1)
					e.opts.Logger.WarnContext(ctx, "stop sandbox", "sandbox_id", s.ID, "error", err)
					return nil
				}
				done.Add(1)
				return nil
			})
		}
		_ = g.Wait()
		if len(page) < pageSize || ctx.Err() != nil {
			left, err := e.stopUnclaimed(ctx)
			return int(done.Load()) + left, int(not.Load()), errors.Join(err, ctx.Err())
		}
		after = page[len(page)-1].ID
	}
}

// down stops one sandbox. At a driver that cannot stop instances, it returns an error: a stop would end the instance.
func (e *Engine) down(ctx context.Context, s sandbox.Sandbox, actor string) error {
	if _, ok := driver.As[driver.Stopper](e.opts.Drivers[s.Spec.Driver]); !ok {
		return driver.ErrUnsupported
	}
	_, err := e.Handle(s.Owner.Tenant, s.ID, actor).Stop(ctx)
	return err
}

// stopUnclaimed stops instances that still run on this machine. No record names them; a crash left them. Without a
// server, no sweep ends them.
func (e *Engine) stopUnclaimed(ctx context.Context) (stopped int, err error) {
	for _, d := range e.opts.Drivers {
		stopper, ok := driver.As[driver.Stopper](d)
		if _, local := driver.As[driver.Local](d); !ok || !local {
			continue
		}
		for st, listed := range d.List(ctx, driver.Selector{}) {
			if listed != nil {
				err = errors.Join(err, listed)
				break
			}
			if st.Phase != driver.PhaseRunning && st.Phase != driver.PhaseFrozen {
				continue
			}
			if failed := stopper.Stop(ctx, st.ID); failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			stopped++
		}
	}
	return stopped, err
}
