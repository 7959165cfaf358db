package drivertest_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/drivertest"
)

const lag = 20 * time.Millisecond

// lagging is a driver as some providers are: what was destroyed lingers for a while, a listing or a
// phase may be as old as the lag.
type lagging struct {
	*bent
	mu   sync.Mutex
	at   time.Time
	seen []driver.Status
}

func newLagging(t *testing.T, p *procs) *lagging {
	l := &lagging{bent: newBent(p)}
	var lingering sync.WaitGroup
	t.Cleanup(lingering.Wait)
	l.list = l.listOld
	l.inspect = l.inspectOld
	l.destroy = func(ctx context.Context, id driver.ID) error {
		if _, err := p.Inspect(ctx, id); err != nil {
			return p.Destroy(ctx, id)
		}
		lingering.Add(1)
		time.AfterFunc(lag, func() {
			defer lingering.Done()
			p.Destroy(context.Background(), id)
		})
		return nil
	}
	return l
}

// old returns what there was at some moment within the lag.
func (l *lagging) old(ctx context.Context) ([]driver.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < lag {
		return l.seen, ctx.Err()
	}
	var all []driver.Status
	for st, err := range l.procs.List(ctx, driver.Selector{}) {
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	l.at, l.seen = time.Now(), all
	return all, nil
}

func (l *lagging) listOld(ctx context.Context, sel driver.Selector) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		all, err := l.old(ctx)
		if err != nil {
			yield(driver.Status{}, err)
			return
		}
		for _, st := range all {
			wanted := (sel.Sandbox == "" || sel.Sandbox == st.Key.Sandbox) && (sel.Tenant == "" || sel.Tenant == st.Tenant)
			if wanted && !yield(st, nil) {
				return
			}
		}
	}
}

// inspectOld knows at once whether there is an instance, and its phase later.
func (l *lagging) inspectOld(ctx context.Context, id driver.ID) (driver.Status, error) {
	st, err := l.procs.Inspect(ctx, id)
	if err != nil {
		return st, err
	}
	all, err := l.old(ctx)
	for _, was := range all {
		if was.ID == id {
			st.Phase = was.Phase
		}
	}
	return st, err
}

func TestSuitePassesOnDriverThatLags(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Serve: serve,
		New:   func(t *testing.T) driver.Driver { return newLagging(t, newProcs(t, t.TempDir())) },
	})
}
