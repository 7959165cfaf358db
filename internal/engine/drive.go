package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Who acts when nobody asked.
const (
	reconciler = "reconcile"
	sweeper    = "sweep"
)

// maxRounds bounds one holder's plans. A sandbox that needs more is planned again when it is due.
const maxRounds = 20

// work is one holder's time with one sandbox.
type work struct {
	*Engine
	lease  store.Lease
	s      sandbox.Sandbox
	driver driver.Driver
	policy sandbox.Policy
	actor  string
	asked  bool          // a caller waits for it
	ahead  time.Duration // of the database's clock before ours

	seen   sandbox.Observation
	made   sandbox.InstanceID // made in this round and not recorded yet
	gaveUp bool               // the last thing recorded is that a start failed
	from   sandbox.State      // in which the last start began
	ended  map[driver.ID]bool // confirmed gone by our own Destroy; a list may still show them
	synced sandbox.SyncMark

	restored *sandbox.Restored // what this start brought back
}

// drive takes the sandbox's lease and works on it until nothing is left to do. It answers ErrBusy at
// once when somebody else holds the lease. To look is to ask the driver first, whatever the record says.
// The work does not end with the caller: it runs on a context of its own, so that nobody's hanging up
// leaves half a sandbox.
func (e *Engine) drive(ctx context.Context, id, actor string, look bool) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.WorkTimeout)
	defer cancel()
	asked := time.Now()
	grant, err := e.Store.Lease(ctx, store.LeaseSandbox, id, e.Holder)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	if !grant.OK {
		return sandbox.Sandbox{}, sandbox.Errorf("take lease", api.CodeBusy, "%s works on sandbox %s", grant.Lease.Holder, id)
	}
	w := e.begin(grant, actor)
	e.at("after-lease", w.s)
	ctx, stop := e.renew(about(ctx, w.s), grant.Lease, asked)
	defer stop()
	if w.driver == nil {
		err := sandbox.Errorf("work on sandbox", api.CodeUnknownDriver, "no driver %q is configured here", w.s.Spec.Driver)
		return w.s, errors.Join(err, w.look(ctx, w.now().Add(time.Minute)))
	}
	w.policy.TurnUntil = e.turnUntil(ctx, w.s)
	if look {
		w.seen, err = w.observe(ctx)
	}
	if err == nil {
		err = w.settle(ctx)
	} else {
		err = w.interrupted(ctx, err)
	}
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, sandbox.ErrStale) {
		err = lost // whatever the call said that was cancelled with the lease
	}
	return w.s, err
}

func (e *Engine) begin(grant store.Grant, actor string) *work {
	w := e.workOn(grant.Sandbox, actor)
	w.lease, w.ahead = grant.Lease, time.Until(grant.Lease.Until.Add(-e.LeaseTTL))
	if w.asked = actor != reconciler && actor != sweeper; w.asked {
		w.policy.NoRecover = false
	}
	return w
}

func (e *Engine) workOn(s sandbox.Sandbox, actor string) *work {
	return &work{
		Engine: e, s: s, actor: actor, synced: s.Synced,
		driver: e.Drivers[s.Spec.Driver], policy: e.policy(s), ended: map[driver.ID]bool{},
	}
}

// policy is what applies to a sandbox here: what was configured, and what cannot be done.
func (e *Engine) policy(s sandbox.Sandbox) sandbox.Policy {
	p := e.Policy(s)
	p.NoSave = p.NoSave || e.noSave
	if d := e.Drivers[s.Spec.Driver]; d != nil {
		_, ok := driver.As[driver.Stopper](d)
		p.NoStop = !ok
	}
	return p
}

// now is the database's clock, which every time in the record is by.
func (w *work) now() time.Time { return time.Now().Add(w.ahead) }

// renew is store.Keep, counted.
func (e *Engine) renew(ctx context.Context, lease store.Lease, taken time.Time) (held context.Context, stop func()) {
	held, end := store.Keep(ctx, e.Store, lease, e.LeaseTTL, taken)
	e.Metrics.LeasesHeld.Inc()
	return held, func() {
		if errors.Is(context.Cause(held), sandbox.ErrStale) {
			e.Metrics.LeaseLosses.Inc()
		}
		e.Metrics.LeasesHeld.Dec()
		if err := end(); err != nil {
			e.Logger.WarnContext(ctx, "release lease; it runs out by itself", "error", err)
		}
	}
}

// extend renews the lease once, in no more time than is left for another try.
func (e *Engine) extend(ctx context.Context, lease store.Lease) error {
	return store.Extend(ctx, e.Store, lease, e.LeaseTTL)
}

// settle plans and acts until there is nothing to do, or something could not be done.
func (w *work) settle(ctx context.Context) error {
	for range maxRounds {
		steps, due := sandbox.Plan(w.now(), w.s, w.seen, w.policy)
		if len(steps) == 0 {
			return w.rest(ctx, due)
		}
		if w.asked && w.s.Settled() && steps[0].Op == sandbox.OpSave {
			return w.look(ctx, w.now()) // the caller has what it asked for, and does not wait for the object store
		}
		w.seen, w.made = sandbox.Observation{}, ""
		if err := w.round(ctx, steps); err != nil {
			return w.interrupted(ctx, err)
		}
	}
	return w.interrupted(ctx, sandbox.Errorf("settle sandbox", api.CodeBusy, "sandbox %s is still %s after %d rounds", w.s.ID, w.s.State, maxRounds))
}

// round takes the steps in order. It ends early, without an error, when a step asks for a new plan.
func (w *work) round(ctx context.Context, steps []sandbox.Step) error {
	for _, step := range steps {
		again, err := w.take(ctx, step)
		if err != nil {
			return w.broken(ctx, step, err)
		}
		if again {
			return nil
		}
	}
	return nil
}

// rest ends the work on a sandbox about which nothing can be done now.
func (w *work) rest(ctx context.Context, due time.Time) error {
	err := w.verdict()
	refused := w.s.State == sandbox.Stopped && w.s.Failure != nil && w.s.Failure.Final
	if err == nil || refused || w.s.State == sandbox.Failed || w.s.State == sandbox.Unhealthy {
		return errors.Join(err, w.look(ctx, due))
	}
	return w.interrupted(ctx, err)
}

// verdict says why a sandbox at rest is not where it should be, or nil.
func (w *work) verdict() error {
	switch {
	case w.s.Settled():
		return nil
	case w.seen.Sight == sandbox.Unreachable || w.seen.Sight == sandbox.Unclear:
		return sandbox.Errorf("look for the sandbox", api.CodeDriverUnreachable, "driver %s: %s", w.s.Spec.Driver, w.seen.Detail)
	}
	return failure(w.s)
}

// failure is the recorded failure as an error, or nil.
func failure(s sandbox.Sandbox) error {
	if s.Failure == nil {
		return nil
	}
	return sandbox.Errorf("", s.Failure.Code, "%s", s.Failure.Message)
}

// interrupted keeps an unfinished sandbox due: one whose start was given up when its back-off ends, if
// ever; any other likewise, with the reason in its record, where people look for it.
func (w *work) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, sandbox.ErrStale) {
		return err
	}
	ctx, cancel := w.aftermath(ctx)
	defer cancel()
	if w.gaveUp {
		steps, due := sandbox.Plan(w.now(), w.s, sandbox.Observation{}, w.policy)
		if len(steps) > 0 {
			due = w.now() // used again meanwhile
		}
		return errors.Join(err, w.look(ctx, due))
	}
	f := w.failed(err)
	wait := max(w.policy.RetryEvery, w.policy.Backoff.Delay(w.s.ID, f.Attempts))
	due := store.Due{At: w.now().Add(wait), Want: w.s.Want, UsedAt: w.s.ActiveAt}
	return errors.Join(err, w.Store.Stumble(ctx, w.lease, *f, due, w.s.ProbedAt))
}

// aftermath is a context for what must be done after the work's own time is over. It fits into what is
// left of the lease.
func (w *work) aftermath(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), w.LeaseTTL/2)
}

// look sets when the sandbox is looked at again. A wish made since the plan stands: it is due now.
func (w *work) look(ctx context.Context, due time.Time) error {
	err := w.Store.SetDue(ctx, w.lease, store.Due{At: due, Want: w.s.Want, UsedAt: w.s.ActiveAt}, w.s.ProbedAt)
	if errors.Is(err, sandbox.ErrStale) {
		w.Metrics.StaleCommits.Inc()
	}
	return err
}

// about puts what every record of this work should say into the context.
func about(ctx context.Context, s sandbox.Sandbox) context.Context {
	return telemetry.With(aboutOwner(ctx, s.Owner), slog.String(telemetry.FieldSandboxID, s.ID))
}

func aboutOwner(ctx context.Context, o sandbox.Owner) context.Context {
	return telemetry.With(ctx, slog.String(telemetry.FieldTenant, o.Tenant),
		slog.String(telemetry.FieldOwnerKind, string(o.Kind)), slog.String(telemetry.FieldOwnerID, o.ID))
}
