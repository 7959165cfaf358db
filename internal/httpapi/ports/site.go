package ports

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/preview"
)

const (
	checkedFor = time.Second // time for which a running sandbox is not looked at again
	siteTime   = time.Minute // time without requests after which a site is forgotten
)

// site is a port of a sandbox that browsers look at. It keeps connections, and the knowledge that the sandbox runs, between
// the requests of a page.
type site struct {
	at   place
	pool *preview.Pool

	mu      sync.Mutex
	handle  *engine.Handle
	checked time.Time // when the sandbox was last found running
	waiting time.Time // since when requests wait for it; zero: they do not
	used    time.Time
}

// sites has the sites of this server.
type sites struct {
	mu  sync.Mutex
	all map[place]*site
}

func newSites() *sites { return &sites{all: map[place]*site{}} }

// at returns the site of a port, and forgets those that were not used for a while.
func (s *sites) at(at place) *site {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[at]
	if one == nil {
		now := time.Now()
		for at, old := range s.all {
			if old.unused(now) {
				old.pool.CloseIdle()
				delete(s.all, at)
			}
		}
		one = &site{at: at, used: now}
		one.pool = preview.NewPool(one.dial)
		s.all[at] = one
	}
	return one
}

func (s *site) unused(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.used) > siteTime
}

// since returns the time since when requests wait for the sandbox.
func (s *site) since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// ready makes the sandbox run and returns a handle on it. The principal of ctx may use the sandbox.
func (s *site) ready(ctx context.Context, a *Origins) (*engine.Handle, error) {
	now := time.Now()
	s.mu.Lock()
	h, fresh := s.handle, now.Sub(s.checked) < checkedFor
	if s.used = now; !fresh && s.waiting.IsZero() {
		s.waiting = now
	}
	s.mu.Unlock()
	if fresh {
		return h, nil
	}
	h, err := a.handle(ctx, s.at)
	if err != nil {
		return nil, err
	}
	conn, err := h.Guest(ctx)
	if err != nil {
		return nil, err
	}
	_ = conn.Close() // nothing was sent on it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle, s.checked, s.waiting = h, now, time.Time{}
	return h, nil
}

// dial connects to the port.
func (s *site) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	h := s.handle
	s.mu.Unlock()
	conn, err := h.Guest(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Dial(ctx, s.at.port)
}
