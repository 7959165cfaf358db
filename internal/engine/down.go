package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"golang.org/x/sync/errgroup"
)

// Down stops every sandbox of this machine, whoever it belongs to, and keeps their files. It goes on
// past those that cannot be stopped and counts them. The next use of one starts it again.
func (e *Engine) Down(ctx context.Context, actor string) (stopped, failed int, err error) {
	var done, not atomic.Int64
	for after := ""; ; {
		page, err := e.Store.Up(ctx, e.Host, after, batch)
		if err != nil {
			return int(done.Load()), int(not.Load()), err
		}
		var g errgroup.Group
		g.SetLimit(e.Workers)
		for _, s := range page {
			g.Go(func() error {
				if err := e.down(ctx, s, actor); err != nil {
					not.Add(1)
					e.Logger.WarnContext(ctx, "stop sandbox", "sandbox_id", s.ID, "error", err)
					return nil
				}
				done.Add(1)
				return nil
			})
		}
		_ = g.Wait()
		if len(page) < batch || ctx.Err() != nil {
			left, err := e.unclaimed(ctx)
			return int(done.Load()) + left, int(not.Load()), errors.Join(err, ctx.Err())
		}
		after = page[len(page)-1].ID
	}
}

// down stops one sandbox. At a driver that cannot stop it, stopping would end it: it is left alone.
func (e *Engine) down(ctx context.Context, s sandbox.Sandbox, actor string) error {
	if _, ok := driver.As[driver.Stopper](e.Drivers[s.Spec.Driver]); !ok {
		return driver.ErrUnsupported
	}
	_, err := e.Handle(s.Owner.Tenant, s.ID, actor).Stop(ctx)
	return err
}

// unclaimed stops what runs on this machine and no record asks for: a crash's leavings, which nobody
// ends before the next server looks.
func (e *Engine) unclaimed(ctx context.Context) (stopped int, err error) {
	for _, d := range e.Drivers {
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
