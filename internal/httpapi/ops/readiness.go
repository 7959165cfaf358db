package ops

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/middleware"
)

const (
	checkTime     = 3 * time.Second // time limit of each check
	databaseEvery = time.Second     // minimum time between two checks: the route needs no key
	driversEvery  = 10 * time.Second
)

// readiness checks whether the server can do its work.
type readiness struct {
	a                 *handlers
	database, drivers *cachedCheck
	saving, messages  *cachedCheck
	secrets           *cachedCheck
}

func newReadiness(a *handlers) *readiness {
	rd := &readiness{a: a}
	rd.database = &cachedCheck{every: databaseEvery, ask: rd.askDatabase}
	rd.drivers = &cachedCheck{every: driversEvery, ask: a.Engine.Check}
	rd.saving = &cachedCheck{every: driversEvery, ask: rd.askSaving}
	rd.messages = &cachedCheck{every: driversEvery, ask: rd.askMessages}
	rd.secrets = &cachedCheck{every: driversEvery, ask: rd.askSecrets}
	return rd
}

// cachedCheck repeats a check only when its last result is old. All callers share the result.
type cachedCheck struct {
	every time.Duration
	ask   func(ctx context.Context) []api.Check

	mu     sync.Mutex
	at     time.Time
	checks []api.Check
}

// answer returns a copy of the last result. The end of the caller's request does not end a running check.
func (q *cachedCheck) answer(ctx context.Context) []api.Check {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at.IsZero() || time.Since(q.at) >= q.every {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
		defer cancel()
		q.checks, q.at = q.ask(ctx), time.Now()
	}
	return slices.Clone(q.checks)
}

// readyReply sets its status itself: "not ready" is an answer here, not a problem.
type readyReply struct {
	Status int
	Body   api.Ready
}

func (rd *readiness) answer(ctx context.Context, _ *struct{}) (*readyReply, error) {
	out := &readyReply{Status: http.StatusOK, Body: api.Ready{Status: "ready", Version: rd.a.Version, Checks: rd.look(ctx)}}
	for i, c := range out.Body.Checks {
		switch {
		case c.Status == "failed":
			out.Status, out.Body.Status = http.StatusServiceUnavailable, "not_ready"
		case c.Status == "warning" && out.Body.Status == "ready":
			out.Body.Status = "degraded" // the status stays 200: otherwise a load balancer would drain all replicas at once
		}
		// Details contain addresses and texts of drivers. Only callers on this machine get them.
		if !exchange.Of(ctx).Local {
			out.Body.Checks[i].Detail, out.Body.Checks[i].Fix = "", ""
		}
	}
	if rd.a.Draining.Load() {
		out.Status, out.Body.Status = http.StatusServiceUnavailable, "draining"
	}
	return out, nil
}

// look runs all checks in parallel, so that a check that hangs does not delay or fail the others.
func (rd *readiness) look(ctx context.Context) []api.Check {
	var database, drivers, saving, messages, secrets []api.Check
	var wg sync.WaitGroup
	wg.Go(func() { database = rd.database.answer(ctx) })
	wg.Go(func() { drivers = rd.drivers.answer(ctx) })
	wg.Go(func() { saving = rd.saving.answer(ctx) })
	wg.Go(func() { messages = rd.messages.answer(ctx) })
	wg.Go(func() { secrets = rd.secrets.answer(ctx) })
	wg.Wait()
	checks := slices.Concat(database, secrets, drivers, saving, messages, rd.askDisk(ctx), middleware.ConnectionCheck(ctx))
	for i := range checks {
		checks[i].Detail = oneLine(rd.a.Redactor.String(checks[i].Detail))
	}
	return checks
}

func (rd *readiness) askDatabase(ctx context.Context) []api.Check {
	err := rd.a.Store.Ping(ctx)
	if err == nil {
		err = rd.a.Store.Health()
	}
	if err == nil {
		return []api.Check{{Name: "database", Status: "ok"}}
	}
	rd.a.Log.WarnContext(ctx, "database is not ready", "error", err)
	fix := "Run 'berth doctor' on the server to find the cause."
	var e *fault.Error
	if errors.As(err, &e) && e.Hint != "" {
		fix = e.Hint
	}
	return []api.Check{{Name: "database", Status: "failed", Detail: err.Error(), Fix: fix}}
}

func (rd *readiness) askSaving(ctx context.Context) []api.Check {
	if rd.a.Saving == nil {
		return nil
	}
	return []api.Check{rd.a.Saving(ctx)}
}

func (rd *readiness) askMessages(ctx context.Context) []api.Check {
	if rd.a.Messages == nil {
		return nil
	}
	return rd.a.Messages(ctx)
}

func (rd *readiness) askSecrets(ctx context.Context) []api.Check {
	if rd.a.Secrets == nil {
		return nil
	}
	return []api.Check{rd.a.Secrets(ctx)}
}

func (rd *readiness) askDisk(ctx context.Context) []api.Check {
	if rd.a.Disk == nil {
		return nil
	}
	return []api.Check{rd.a.Disk(ctx)}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
