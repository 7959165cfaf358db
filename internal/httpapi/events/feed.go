package events

import (
	"context"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/store"
)

// look is the interval at which a server with watchers looks at the log. Changes may come from any server.
const look = 250 * time.Millisecond

// feed wakes the streams of a tenant when its log has grown. One goroutine looks for all streams of the server, and only
// while there are any.
type feed struct {
	log store.ChangeLog

	mu      sync.Mutex
	streams map[chan struct{}]store.TenantID
	stop    context.CancelFunc // nil: there are no streams
}

func newFeed(log store.ChangeLog) *feed {
	return &feed{log: log, streams: map[chan struct{}]store.TenantID{}}
}

// join returns a channel that gets a token after changes of the tenant. leave must be called at the end.
func (f *feed) join(tenant store.TenantID) (news <-chan struct{}, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{}, 1)
	if f.streams[c] = tenant; f.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		f.stop = stop
		go f.run(ctx)
	}
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(f.streams, c); len(f.streams) == 0 {
			f.stop()
			f.stop = nil
		}
	}
}

// run looks until the context ends. It does not know the position of the streams, so the first look wakes all.
func (f *feed) run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	seen, known := store.LogPosition{}, false
	for {
		if end, err := f.log.End(ctx); err == nil && (!known || end.To != seen.To) {
			if f.wake(ctx, seen, end, known) == nil {
				seen, known = end, true
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *feed) wake(ctx context.Context, from, to store.LogPosition, known bool) error {
	changed := map[store.TenantID]bool{}
	if known {
		tenants, err := f.log.Tenants(ctx, from, to)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			changed[t] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, tenant := range f.streams {
		if changed[tenant] || !known {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	return nil
}
