package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
)

// AgentPort is the port of the agent's server inside. Its URL at the provider is in the sandbox's row, for other programs.
const AgentPort = 3000

const (
	exposeFor   = time.Hour        // lifetime for which a provider is asked
	exposeTime  = 10 * time.Second // time limit of the provider's answer
	exposePause = 2 * time.Second  // time for which a provider that failed is not asked again
	renewPause  = 5 * time.Second  // time for which a URL that does not work is not renewed again
	unknownLife = 5 * time.Minute  // lifetime of a URL whose expiry is not known
	maxURL      = 8 << 10
	maxExposed  = 10_000
)

// exposures has the URLs at which providers serve ports of instances. They are a cache: a URL that has expired or does not
// work is replaced.
type exposures struct {
	asking singleflight.Group
	mu     sync.Mutex
	all    map[string]exposed // by exposedKey
}

// exposed is the last answer of a provider.
type exposed struct {
	driver.Exposure
	at  time.Time // when it came
	err error
}

// fresh reports whether the URL may be used. early reports whether it should be renewed already.
func (x exposed) fresh(now time.Time) (ok, early bool) {
	life := x.ExpiresAt.Sub(x.at)
	return x.err == nil && now.Before(x.ExpiresAt), x.ExpiresAt.Sub(now) < life/4
}

func exposedKey(s sandbox.Sandbox, port uint16) string {
	return fmt.Sprintf("%s %s %d", s.ID, s.Instance, port)
}

func (x *exposures) get(key string) (exposed, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	one, ok := x.all[key]
	return one, ok
}

func (x *exposures) put(key string, one exposed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) >= maxExposed {
		maps.DeleteFunc(x.all, func(_ string, old exposed) bool { return !one.at.Before(old.ExpiresAt) })
	}
	if x.all == nil || len(x.all) >= maxExposed {
		x.all = map[string]exposed{}
	}
	x.all[key] = one
}

// Exposed makes the sandbox run and returns the URL at which its provider serves a port. The error of a driver that has no
// such URLs is CodeUnsupported.
func (h *Handle) Exposed(ctx context.Context, port uint16) (driver.Exposure, error) {
	if s := cmp.Or(h.lastRow(), h.just.Load()); s != nil && !h.e.exposes(*s) {
		return driver.Exposure{}, unsupported("expose ports of", *s)
	}
	s, err := h.Sandbox(ctx)
	if err != nil {
		return driver.Exposure{}, err
	}
	at, err := h.e.exposed(ctx, s, port)
	if errors.Is(err, driver.ErrNotRunning) || errors.Is(err, driver.ErrNotFound) {
		if s, err = h.e.ensurer.verify(ctx, s, h.actor); err == nil {
			at, err = h.e.expose(ctx, s, port)
		}
	}
	return at, wrapErr(s, err)
}

// RenewExposed replaces a URL that did not work. It returns the current one if the URL was replaced already, or if the
// current one is so new that the program in the sandbox, not the provider, has refused the request.
func (h *Handle) RenewExposed(ctx context.Context, port uint16, failed driver.Exposure) (driver.Exposure, error) {
	s := h.lastRow()
	if s == nil {
		return failed, nil
	}
	now, ok := h.e.exposures.get(exposedKey(*s, port))
	if ok && (now.err == nil && now.Exposure != failed || time.Since(now.at) < renewPause) {
		return now.Exposure, now.err
	}
	at, err := h.e.expose(ctx, *s, port)
	return at, wrapErr(*s, err)
}

// KeepExposed makes sure in the background that the row of a running sandbox has the URL of the agent's port, if its
// provider has such URLs.
func (e *Engine) KeepExposed(s sandbox.Sandbox) {
	if !e.exposes(s) {
		return
	}
	done := e.working()
	go func() {
		defer done()
		ctx, cancel := context.WithTimeout(context.Background(), exposeTime)
		defer cancel()
		if _, err := e.exposed(ctx, s, AgentPort); err != nil {
			e.opts.Logger.WarnContext(ctx, "get the provider's URL of the agent's port", "sandbox_id", s.ID, "error", err)
		}
	}()
}

func (e *Engine) exposes(s sandbox.Sandbox) bool {
	d := e.opts.Drivers[s.Spec.Driver]
	if d == nil {
		return false
	}
	_, ok := driver.As[driver.Exposer](d)
	return ok
}

// exposed returns the cached URL of a port. One that expires soon is renewed in the background.
func (e *Engine) exposed(ctx context.Context, s sandbox.Sandbox, port uint16) (driver.Exposure, error) {
	last, known := e.exposures.get(exposedKey(s, port))
	ok, early := last.fresh(time.Now())
	switch {
	case known && last.err != nil && time.Since(last.at) < exposePause:
		return driver.Exposure{}, last.err
	case !ok:
		return e.expose(ctx, s, port)
	case early && time.Since(last.at) > exposePause:
		e.ask(s, port)
	}
	return last.Exposure, nil
}

// expose asks the provider for a URL. Callers at the same time share the answer, and wait for it as long as their contexts.
func (e *Engine) expose(ctx context.Context, s sandbox.Sandbox, port uint16) (driver.Exposure, error) {
	select {
	case <-ctx.Done():
		return driver.Exposure{}, ctx.Err()
	case got := <-e.ask(s, port):
		at, _ := got.Val.(driver.Exposure)
		return at, got.Err
	}
}

func (e *Engine) ask(s sandbox.Sandbox, port uint16) <-chan singleflight.Result {
	key := exposedKey(s, port)
	return e.exposures.asking.DoChan(key, func() (any, error) {
		defer e.working()()
		ctx, cancel := context.WithTimeout(context.Background(), exposeTime)
		defer cancel()
		d, ok := driver.As[driver.Exposer](e.opts.Drivers[s.Spec.Driver])
		if !ok {
			return driver.Exposure{}, driver.ErrUnsupported
		}
		at, err := d.Expose(ctx, driver.ID(s.Instance), port, exposeFor)
		now := time.Now()
		if err == nil {
			at, err = checkExposure(at, now)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s: %v", exposeTime, err) // not wrapped: it is not the caller's deadline
		}
		last, _ := e.exposures.get(key)
		if ok, _ := last.fresh(now); err != nil && ok {
			last.at = now // the URL still works, and the provider is asked again later
			e.exposures.put(key, last)
			return last.Exposure, nil
		}
		if err == nil && port == AgentPort {
			err = e.opts.Store.RecordExposed(ctx, s, at.URL, at.Token, at.ExpiresAt.Sub(now))
		}
		e.exposures.put(key, exposed{at, now, err})
		return at, err
	})
}

// checkExposure refuses what no client could use. A provider may be down behind a gateway that answers anything.
func checkExposure(at driver.Exposure, now time.Time) (driver.Exposure, error) {
	u, err := url.Parse(at.URL)
	switch {
	case err != nil || len(at.URL) > maxURL || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return driver.Exposure{}, errors.New("the provider answered with something that is no URL of a port")
	case len(at.Token) > maxURL || at.Token != "" && at.Header == "" || strings.ContainsFunc(at.Header+at.Token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return driver.Exposure{}, errors.New("the provider answered with something that is no token")
	case at.ExpiresAt.IsZero():
		at.ExpiresAt = now.Add(unknownLife)
	case !now.Before(at.ExpiresAt):
		return driver.Exposure{}, errors.New("the provider answered with a URL that has expired")
	}
	return at, nil
}
