package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	checkTime     = 3 * time.Second // for each thing that readiness asks
	databaseEvery = time.Second     // anybody may ask, and asking costs
	driversEvery  = 10 * time.Second
)

// readiness finds out whether the server can do its work.
type readiness struct {
	a                 *Handler
	database, drivers *question
	saving, messages  *question
}

func newReadiness(a *Handler) *readiness {
	rd := &readiness{a: a}
	rd.database = &question{every: databaseEvery, ask: rd.askDatabase}
	rd.drivers = &question{every: driversEvery, ask: a.Engine.Check}
	rd.saving = &question{every: driversEvery, ask: rd.askSaving}
	rd.messages = &question{every: driversEvery, ask: rd.askMessages}
	return rd
}

// question is asked when its last answer has become old, by one caller for all who want to know.
type question struct {
	every time.Duration
	ask   func(ctx context.Context) []api.Check

	mu     sync.Mutex
	at     time.Time
	checks []api.Check
}

// answer returns a copy of the last answer. It outlives the caller that happened to ask.
func (q *question) answer(ctx context.Context) []api.Check {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at.IsZero() || time.Since(q.at) >= q.every {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
		defer cancel()
		q.checks, q.at = q.ask(ctx), time.Now()
	}
	return slices.Clone(q.checks)
}

// readyReply has a status of its own: "not ready" is an answer here, not a problem.
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
			out.Body.Status = "degraded" // and 200: a balancer would drain every replica at once
		}
		// Details hold addresses and drivers' words: people on this machine and the log get them.
		if !exchangeOf(ctx).local {
			out.Body.Checks[i].Detail, out.Body.Checks[i].Fix = "", ""
		}
	}
	if rd.a.draining.Load() {
		out.Status, out.Body.Status = http.StatusServiceUnavailable, "draining"
	}
	return out, nil
}

// look asks everything the server needs side by side: what hangs takes no time from the others, and so
// is not mistaken for them.
func (rd *readiness) look(ctx context.Context) []api.Check {
	var database, drivers, saving, messages []api.Check
	var wg sync.WaitGroup
	wg.Go(func() { database = rd.database.answer(ctx) })
	wg.Go(func() { drivers = rd.drivers.answer(ctx) })
	wg.Go(func() { saving = rd.saving.answer(ctx) })
	wg.Go(func() { messages = rd.messages.answer(ctx) })
	wg.Wait()
	checks := slices.Concat(database, drivers, saving, messages, rd.askDisk(ctx), connectionCheck(ctx))
	for i := range checks {
		checks[i].Detail = oneLine(rd.a.clean(checks[i].Detail))
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
	fix := "'berth doctor' on the server says what is wrong."
	var e *sandbox.Error
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

func (rd *readiness) askDisk(ctx context.Context) []api.Check {
	if rd.a.Disk == nil {
		return nil
	}
	return []api.Check{rd.a.Disk(ctx)}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
