package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// Actors of work without a caller.
const (
	reconciler = "reconcile"
	sweeper    = "sweep"
)

// maxRounds is the number of plans that one lease holder makes. A sandbox that needs more stays due.
const maxRounds = 20

// work is the work of one lease holder on one sandbox.
type work struct {
	*Engine
	lease     store.Lease
	s         sandbox.Sandbox
	driver    driver.Driver
	policy    sandbox.Policy
	actor     string
	asked     bool          // whether a caller waits for the work
	clockSkew time.Duration // database's clock minus the local clock

	seen   sandbox.Observation
	made   sandbox.InstanceID // instance that was created in this round and is not recorded yet
	gaveUp bool               // whether the last recorded event is a failed start
	from   sandbox.State      // state before the last EventStart
	ended  map[driver.ID]bool // instances that this work destroyed, although the driver may still list them
	synced sandbox.SyncMark

	restored *sandbox.Restored // version that this start restored; nil: none
}

// drive takes the sandbox's lease and works on the sandbox until there is nothing to do. It returns ErrBusy at once if
// another holder has the lease. With inspect, it first observes the instance, even if the record needs no work. The
// work continues when the caller's context ends, so that a closed connection leaves no unfinished sandbox.
func (e *Engine) drive(ctx context.Context, id, actor string, inspect bool) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.WorkTimeout)
	defer cancel()
	asked := time.Now()
	grant, err := e.opts.Store.Lease(ctx, store.LeaseSandbox, id, e.opts.Holder)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	if !grant.OK {
		return sandbox.Sandbox{}, fault.Errorf("take lease", api.CodeBusy, "%s works on sandbox %s", grant.Lease.Holder, id)
	}
	w := e.newWork(grant, actor)
	e.at("after-lease", w.s)
	ctx, stop := e.renew(about(ctx, w.s), grant.Lease, asked)
	defer stop()
	if w.driver == nil {
		err := fault.Errorf("work on sandbox", api.CodeUnknownDriver, "no driver %q is configured here", w.s.Spec.Driver)
		return w.s, errors.Join(err, w.setDue(ctx, w.now().Add(time.Minute)))
	}
	w.policy.TurnUntil = e.turnUntil(ctx, w.s)
	if inspect {
		w.seen, err = w.observe(ctx)
	}
	if err == nil {
		err = w.settle(ctx)
	} else {
		err = w.interrupted(ctx, err)
	}
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, fault.ErrStale) {
		err = lost // err only says that the call was cancelled
	}
	return w.s, err
}

func (e *Engine) newWork(grant store.Grant, actor string) *work {
	w := e.workOn(grant.Sandbox, actor)
	w.lease, w.clockSkew = grant.Lease, time.Until(grant.Lease.Until.Add(-e.opts.LeaseTTL))
	if w.asked = actor != reconciler && actor != sweeper; w.asked {
		w.policy.NoRecover = false
	}
	return w
}

func (e *Engine) workOn(s sandbox.Sandbox, actor string) *work {
	return &work{
		Engine: e, s: s, actor: actor, synced: s.Synced,
		driver: e.opts.Drivers[s.Spec.Driver], policy: e.policy(s), ended: map[driver.ID]bool{},
	}
}

// policy returns the configured policy of a sandbox, with NoSave and NoStop set if this server or the driver lacks the
// ability.
func (e *Engine) policy(s sandbox.Sandbox) sandbox.Policy {
	p := e.opts.Policy(s)
	p.NoSave = p.NoSave || e.noSave
	if d := e.opts.Drivers[s.Spec.Driver]; d != nil {
		_, ok := driver.As[driver.Stopper](d)
		p.NoStop = !ok
	}
	return p
}

// now returns the time of the database's clock. All times in the record are by this clock.
func (w *work) now() time.Time { return time.Now().Add(w.clockSkew) }

// renew is store.RenewLoop with metrics.
func (e *Engine) renew(ctx context.Context, lease store.Lease, taken time.Time) (held context.Context, stop func()) {
	held, end := store.RenewLoop(ctx, e.opts.Store, lease, e.opts.LeaseTTL, taken)
	e.opts.Metrics.LeasesHeld.Inc()
	return held, func() {
		if errors.Is(context.Cause(held), fault.ErrStale) {
			e.opts.Metrics.LeaseLosses.Inc()
		}
		e.opts.Metrics.LeasesHeld.Dec()
		if err := end(); err != nil {
			e.opts.Logger.WarnContext(ctx, "release lease; it runs out by itself", "error", err)
		}
	}
}

// extend renews the lease once.
func (e *Engine) extend(ctx context.Context, lease store.Lease) error {
	return store.RenewOnce(ctx, e.opts.Store, lease, e.opts.LeaseTTL)
}

// settle plans and runs steps until there is nothing to do or a step fails.
func (w *work) settle(ctx context.Context) error {
	for range maxRounds {
		steps, due := sandbox.Plan(w.now(), w.s, w.seen, w.policy)
		if len(steps) == 0 {
			return w.rest(ctx, due)
		}
		if w.asked && w.s.Settled() && steps[0].Op == sandbox.OpSave {
			return w.setDue(ctx, w.now()) // the caller has what it asked for, and does not wait for the object store
		}
		w.seen, w.made = sandbox.Observation{}, ""
		if err := w.round(ctx, steps); err != nil {
			return w.interrupted(ctx, err)
		}
	}
	return w.interrupted(ctx, fault.Errorf("settle sandbox", api.CodeBusy, "sandbox %s is still %s after %d rounds", w.s.ID, w.s.State, maxRounds))
}

// round runs the steps of a plan in order. It returns early, without an error, when a step requires a new plan.
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

// rest ends the work when the plan has no steps.
func (w *work) rest(ctx context.Context, due time.Time) error {
	err := w.unsettledError()
	refused := w.s.State == sandbox.Stopped && w.s.Failure != nil && w.s.Failure.Final
	if err == nil || refused || w.s.State == sandbox.Failed || w.s.State == sandbox.Unhealthy {
		return errors.Join(err, w.setDue(ctx, due))
	}
	return w.interrupted(ctx, err)
}

// unsettledError returns the error because of which the sandbox does not satisfy its Want, or nil if it does.
func (w *work) unsettledError() error {
	switch {
	case w.s.Settled():
		return nil
	case w.seen.Sight == sandbox.Unreachable || w.seen.Sight == sandbox.Unclear:
		return fault.Errorf("look for the sandbox", api.CodeDriverUnreachable, "driver %s: %s", w.s.Spec.Driver, w.seen.Detail)
	}
	return failure(w.s)
}

// failure returns the recorded failure as an error, or nil.
func failure(s sandbox.Sandbox) error {
	if s.Failure == nil {
		return nil
	}
	return fault.Errorf("", s.Failure.Code, "%s", s.Failure.Message)
}

// interrupted sets when an unfinished sandbox is due again, and returns err. If a failed start is recorded, that is the
// time of the plan. Otherwise it records err as the failure, and the sandbox is due after the back-off.
func (w *work) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, fault.ErrStale) {
		return err
	}
	ctx, cancel := w.aftermath(ctx)
	defer cancel()
	if w.gaveUp {
		steps, due := sandbox.Plan(w.now(), w.s, sandbox.Observation{}, w.policy)
		if len(steps) > 0 {
			due = w.now() // the sandbox was used since
		}
		return errors.Join(err, w.setDue(ctx, due))
	}
	f := w.newFailure(err)
	wait := max(w.policy.RetryEvery, w.policy.Backoff.Delay(w.s.ID, f.Attempts))
	due := store.Due{At: w.now().Add(wait), Want: w.s.Want, UsedAt: w.s.ActiveAt}
	return errors.Join(err, w.opts.Store.RecordFailure(ctx, w.lease, *f, due, w.s.ProbedAt))
}

// aftermath returns a context for clean-up. If the work's context has ended, it is a new one that ends before the lease
// expires.
func (w *work) aftermath(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), w.opts.LeaseTTL/2)
}

// setDue sets the time of the next check. If the sandbox's Want or last use has changed since the plan, the store keeps
// the sandbox due.
func (w *work) setDue(ctx context.Context, due time.Time) error {
	err := w.opts.Store.SetDue(ctx, w.lease, store.Due{At: due, Want: w.s.Want, UsedAt: w.s.ActiveAt}, w.s.ProbedAt)
	if errors.Is(err, fault.ErrStale) {
		w.opts.Metrics.StaleCommits.Inc()
	}
	return err
}

// about returns a context with the log fields of the sandbox.
func about(ctx context.Context, s sandbox.Sandbox) context.Context {
	return telemetry.With(aboutOwner(ctx, s.Owner), slog.String(telemetry.FieldSandboxID, s.ID))
}

func aboutOwner(ctx context.Context, o sandbox.Owner) context.Context {
	return telemetry.With(ctx, slog.String(telemetry.FieldTenant, o.Tenant),
		slog.String(telemetry.FieldOwnerKind, string(o.Kind)), slog.String(telemetry.FieldOwnerID, o.ID))
}
