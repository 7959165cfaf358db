package ports

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
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
	pool *preview.Pool // for a driver whose provider has no URLs for ports

	mu      sync.Mutex
	handle  *engine.Handle
	exposed driver.Exposure // the port's URL at the provider; zero: connections go through the helper
	checked time.Time       // when the sandbox was last found running
	waiting time.Time       // since when requests wait for it; zero: they do not
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
	exposed, err := h.Exposed(ctx, s.at.port)
	if fault.CodeOf(err) == api.CodeUnsupported {
		var conn guest.Conn
		if conn, err = h.Guest(ctx); err == nil {
			_ = conn.Close() // nothing was sent on it
		}
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exposed = exposed
	s.handle, s.checked, s.waiting = h, now, time.Time{}
	return h, nil
}

// transport returns how requests reach the port.
func (s *site) transport() http.RoundTripper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exposed.URL == "" {
		return s.pool
	}
	return exposed(s.handle, s.at.port, s.exposed)
}

// exposed sends requests to a port through its URL at the provider.
func exposed(h *engine.Handle, port uint16, at driver.Exposure) http.RoundTripper {
	return preview.Exposed{At: at, Renew: func(ctx context.Context, failed driver.Exposure) (driver.Exposure, error) {
		return h.RenewExposed(ctx, port, failed)
	}}
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
