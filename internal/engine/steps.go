package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// take runs one step. The result again requires a new plan before the next step.
func (w *work) take(ctx context.Context, step sandbox.Step) (again bool, err error) {
	if w.s.EnvProblem != nil && (step.Op == sandbox.OpCreate || step.Op == sandbox.OpStart) {
		return false, w.s.EnvProblem // processes would run without the variables of the environment
	}
	switch step.Op {
	case sandbox.OpObserve:
		w.seen, err = w.observe(ctx)
		return true, err
	case sandbox.OpMark:
		return w.mark(ctx, step)
	case sandbox.OpAsk:
		return true, w.ask(ctx, step)
	case sandbox.OpCreate:
		return false, w.create(ctx)
	case sandbox.OpStart:
		return w.start(ctx)
	case sandbox.OpStop:
		return w.stop(ctx)
	case sandbox.OpRestore:
		if err = w.coldStart(ctx); errors.Is(err, sandbox.ErrOvertaken) {
			w.s, err = w.opts.Store.Sandbox(ctx, w.s.ID)
			return true, err
		}
	case sandbox.OpHeal:
		err = w.heal(ctx)
	case sandbox.OpFinal:
		err = w.finalize(ctx, step.Final)
	case sandbox.OpSave:
		return w.save(ctx, step)
	case sandbox.OpDestroy:
		err = w.destroy(ctx, driver.ID(step.Instance))
		w.at("after-destroy", w.s)
	}
	return false, err
}

// destroy ends an instance if this holder still has the lease. Without the lease, the instance may be one that the next
// holder created.
func (w *work) destroy(ctx context.Context, id driver.ID) error {
	if err := w.extend(ctx, w.lease); err != nil {
		return err
	}
	err := w.driver.Destroy(ctx, id)
	if err == nil {
		w.ended[id] = true
	}
	return err
}

// instance returns the instance that this round created, or else the recorded instance.
func (w *work) instance() sandbox.InstanceID {
	if w.made != "" {
		return w.made
	}
	return w.s.Instance
}

// begins lists the events that begin the work for a desired state. Such an event is not written if the sandbox's Want
// has changed since the plan. So a caller that got a running sandbox can rely on it.
var begins = []sandbox.Event{sandbox.EventBegin, sandbox.EventStart, sandbox.EventStop, sandbox.EventEnd}

// mark writes an event, fenced by the lease. The result again requires a new plan, because the sandbox's Want has
// changed.
func (w *work) mark(ctx context.Context, step sandbox.Step) (again bool, err error) {
	change := sandbox.Change{
		Event: step.Event, Reason: step.Reason, Actor: w.actor,
		Instance: w.instance(), Synced: w.synced, Failure: step.Failure, Recovered: step.Recovered, Final: step.Final,
	}
	if step.Event == sandbox.EventBegin {
		change.Host = w.ensurer.pin(w.s.Spec)
	}
	if step.Event == sandbox.EventEnd {
		change.Finalizers = w.finalizers(step.Final)
	}
	if slices.Contains(begins, step.Event) {
		change.If = w.s.Want
	}
	if step.Event == sandbox.EventBegin || step.Event == sandbox.EventStart {
		change.Failure = w.s.Failure // a success clears it, the next failure adds to its Attempts
	}
	w.addFileInfo(step, &change)
	w.at("before-"+string(step.Event), w.s)
	s, err := w.opts.Store.Commit(ctx, w.lease, change, store.Due{}) // a zero Due: the sandbox stays due until a plan has no steps
	if errors.Is(err, sandbox.ErrOvertaken) {
		w.s, err = w.opts.Store.Sandbox(ctx, w.s.ID)
		return true, err
	}
	if err != nil {
		return false, err
	}
	w.opts.Logger.InfoContext(ctx, "sandbox "+string(step.Event), "from", w.s.State, "to", s.State, "reason", change.Reason,
		"actor", w.actor, "driver", s.Spec.Driver, "generation", w.lease.Epoch, "incarnation", s.Incarnation)
	if !change.Lost.IsZero() {
		w.opts.Metrics.LostChanges.Inc()
	}
	if step.Event == sandbox.EventStart {
		w.from = w.s.State
	}
	w.s, w.gaveUp = s, step.Event == sandbox.EventFail || step.Event == sandbox.EventHalted && step.Failure != nil
	w.at("after-"+string(step.Event), s)
	return false, nil
}

// ask changes Want for a timer. It changes nothing if the sandbox was used, or its Want was changed, since it was read.
func (w *work) ask(ctx context.Context, step sandbox.Step) error {
	s, done, err := w.opts.Store.WantIfIdle(ctx, w.s, step.Want, step.Reason, "timer")
	if err == nil && !done {
		s, err = w.opts.Store.Sandbox(ctx, w.s.ID)
	}
	if err == nil {
		w.s = s
	}
	return err
}

// Labels of an instance.
const (
	LabelTemplate     = "berth.template"     // template of the sandbox
	LabelInstallation = "berth.installation" // installation that created the instance
)

func (w *work) create(ctx context.Context) error {
	spec := driver.Spec{
		Key:    driver.Key{Sandbox: w.s.ID, Incarnation: w.s.Incarnation},
		Tenant: w.s.Owner.Tenant,
		Labels: map[string]string{"berth.owner.kind": string(w.s.Owner.Kind), "berth.owner.id": w.s.Owner.ID, LabelTemplate: w.s.Spec.Template},
	}
	if w.opts.Installation != "" {
		spec.Labels[LabelInstallation] = w.opts.Installation
	}
	if w.opts.Templates != nil {
		if err := w.opts.Templates.Prepare(w.s, &spec); err != nil {
			return err
		}
	}
	st, err := w.driver.Create(ctx, spec)
	if err != nil {
		return err
	}
	w.made = sandbox.InstanceID(st.ID)
	if st.Phase != driver.PhaseRunning {
		// An earlier call of Create, whose reply was lost, made the instance, and it has stopped since.
		return fmt.Errorf("the new instance is %s: %w", st.Phase, driver.ErrNotRunning)
	}
	w.opts.Metrics.SandboxCreates.Inc()
	if w.s.Incarnation > 1 {
		w.opts.Logger.InfoContext(ctx, telemetry.EventResolveRecreate, "incarnation", w.s.Incarnation, "instance", st.ID)
	}
	w.at("after-create", w.s)
	return nil
}

func (w *work) start(ctx context.Context) (again bool, err error) {
	stopper, ok := driver.As[driver.Stopper](w.driver)
	if !ok {
		return false, driver.ErrUnsupported
	}
	_, err = stopper.Start(ctx, driver.ID(w.s.Instance))
	if err == nil {
		w.opts.Metrics.SandboxResumes.Inc()
		w.opts.Logger.InfoContext(ctx, telemetry.EventResolveReuse, "resumed", true, "instance", w.s.Instance)
	}
	return w.unlessMissing(err)
}

func (w *work) stop(ctx context.Context) (again bool, err error) {
	stopper, ok := driver.As[driver.Stopper](w.driver)
	if !ok {
		return false, driver.ErrUnsupported
	}
	return w.unlessMissing(stopper.Stop(ctx, driver.ID(w.s.Instance)))
}

// unlessMissing turns driver.ErrNotFound into an observation and requires a new plan. It returns any other error.
func (w *work) unlessMissing(err error) (again bool, _ error) {
	if errors.Is(err, driver.ErrNotFound) {
		w.seen = sandbox.Observation{Sight: sandbox.Missing, Detail: w.redact(err.Error())}
		return true, nil
	}
	return false, err
}

// broken handles a step that failed and returns the error for the caller. If the step belongs to a start, broken ends or
// stops the instance and records the failure. If this fails too, the next pass over the sandbox finds the instance.
func (w *work) broken(ctx context.Context, step sandbox.Step, err error) error {
	if lost := context.Cause(ctx); errors.Is(lost, fault.ErrStale) {
		err = lost // err only says that the call was cancelled
	}
	if errors.Is(err, fault.ErrStale) {
		w.at("stale", w.s)
		w.opts.Metrics.StaleCommits.Inc()
		w.disown(ctx)
		return err
	}
	stepErr := w.wrapStepErr(step, err)
	switch step.Op {
	case sandbox.OpCreate, sandbox.OpStart, sandbox.OpRestore, sandbox.OpHeal:
	default:
		return stepErr
	}
	ctx, cancel := w.aftermath(ctx)
	defer cancel()
	var stopped error
	if w.s.Instance == "" {
		if cleanErr := w.cleanUp(ctx); cleanErr != nil {
			return errors.Join(stepErr, cleanErr)
		}
	} else if step.Op != sandbox.OpHeal {
		_, stopped = w.stop(ctx) // an instance that cannot be stopped is observed later
	}
	if w.s.Instance == "" {
		w.synced = w.s.Synced // the restored files are gone with the instance
	}
	w.made = ""
	event := sandbox.EventFail
	// A stopped sandbox whose start a hook refuses stays stopped, even if another server began the start.
	fromStopped := w.s.Instance != "" && (w.from == sandbox.Stopped || w.from == sandbox.Starting)
	if stepErr.Code == api.CodeHookFailed && fromStopped && stopped == nil {
		event = sandbox.EventHalted
	}
	_, failed := w.mark(ctx, sandbox.Step{Op: sandbox.OpMark, Event: event, Reason: stepErr.Error(), Failure: w.newFailure(stepErr)})
	return errors.Join(stepErr, failed)
}

// disown ends the instance that this holder created but could not record because it lost the lease. If the commit
// succeeded although its reply was lost, the record names the instance, and disown keeps it. It ends no other instance:
// those are the new holder's.
func (w *work) disown(ctx context.Context) {
	if w.made == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// The generation has changed, so that a commit of this holder that is not done yet can no longer succeed.
	row, err := w.opts.Store.Sandbox(ctx, w.s.ID)
	if err == nil && row.Instance == w.made {
		return
	}
	if err == nil {
		err = w.driver.Destroy(ctx, driver.ID(w.made))
	}
	if err != nil {
		w.opts.Logger.WarnContext(ctx, "end a disowned instance; the next pass over this sandbox ends it", "instance", w.made, "error", err)
	}
}

// cleanUp ends all instances of a sandbox whose record names none. They come from unfinished creates.
func (w *work) cleanUp(ctx context.Context) error {
	o, err := w.observe(ctx)
	if err != nil {
		return err
	}
	if o.Sight == sandbox.Unreachable {
		return fault.Errorf("clean up", api.CodeDriverUnreachable, "%s", o.Detail)
	}
	for _, id := range o.Strays {
		if err := w.destroy(ctx, driver.ID(id)); err != nil {
			return fmt.Errorf("clean up instance %s: %w", id, err)
		}
	}
	return nil
}

// wrapStepErr returns an Error with a code for the error of a step.
func (w *work) wrapStepErr(step sandbox.Step, err error) *fault.Error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	code, who := api.CodeDriverUnreachable, "driver "+w.s.Spec.Driver
	switch {
	case step.Op == sandbox.OpHeal:
		code, who = api.CodeUnhealthy, "agent"
	case step.Op == sandbox.OpRestore:
		code, who = api.CodeCreateFailed, "cold start"
	case step.Op == sandbox.OpSave:
		code, who = api.CodeSyncFailed, "workspace"
	case step.Op == sandbox.OpFinal:
		code, who = api.CodeInternal, "finalizer "+step.Final
	case isPermanent(err):
		code = api.CodeDriverRefused
	case errors.Is(err, driver.ErrQuota), errors.Is(err, driver.ErrNotRunning):
		code = api.CodeCreateFailed
	}
	op := fmt.Sprintf("%s sandbox %s", step.Op, w.s.ID)
	return fault.Errorf(op, code, "%s: %w", who, &redactedError{w.redact(err.Error()), err})
}

// redactedError is an error whose text has no secrets of the sandbox's environment.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redact removes the values of the sandbox's environment from a text. Errors of a driver may contain them, and are
// stored, logged and shown.
func (w *work) redact(text string) string {
	secrets := new(telemetry.Redactor)
	for _, value := range w.s.Spec.Env {
		secrets.Add(value)
	}
	return secrets.String(text)
}

// isPermanent reports whether a retry of the same call would always fail with the same error.
func isPermanent(err error) bool {
	return errors.Is(err, driver.ErrUnauthenticated) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnsupported)
}

// newFailure returns the failure to record for an error. Its Attempts continue those of the recorded failure, unless the
// sandbox was used since.
func (w *work) newFailure(err error) *sandbox.Failure {
	f := &sandbox.Failure{Code: fault.CodeOf(err), Message: w.redact(err.Error()), At: w.now(), Want: w.s.Want, Attempts: 1,
		Final: isPermanent(err) || fault.CodeOf(err) == api.CodeHookFailed}
	if w.s.Failure != nil && !w.s.ActiveAt.After(w.s.Failure.At) {
		f.Attempts += w.s.Failure.Attempts
	}
	return f
}
