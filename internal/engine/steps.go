package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

// take does one step. again asks for a new plan before the next.
func (w *work) take(ctx context.Context, step sandbox.Step) (again bool, err error) {
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
			w.s, err = w.Store.Sandbox(ctx, w.s.ID)
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

// destroy ends an instance, if we still hold the lease: what a holder without one takes for a leftover
// may be its successor's pride.
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

// instance is the one that this round is about.
func (w *work) instance() sandbox.InstanceID {
	if w.made != "" {
		return w.made
	}
	return w.s.Instance
}

// begins are the events that begin something which was wished for. One that is overtaken by another wish
// before it is written never happens: whoever was told that the sandbox is as they asked can rely on it.
var begins = []sandbox.Event{sandbox.EventBegin, sandbox.EventStart, sandbox.EventStop, sandbox.EventEnd}

// mark writes an event, fenced by the lease. again asks for a new plan, on another wish.
func (w *work) mark(ctx context.Context, step sandbox.Step) (again bool, err error) {
	change := sandbox.Change{
		Event: step.Event, Reason: step.Reason, Actor: w.actor,
		Instance: w.instance(), Synced: w.synced, Failure: step.Failure, Recovered: step.Recovered, Final: step.Final,
	}
	if step.Event == sandbox.EventBegin {
		change.Host = w.pin(w.s.Spec)
	}
	if step.Event == sandbox.EventEnd {
		change.Finalizers = w.finalizers(step.Final)
	}
	if slices.Contains(begins, step.Event) {
		change.If = w.s.Want
	}
	if step.Event == sandbox.EventBegin || step.Event == sandbox.EventStart {
		change.Failure = w.s.Failure // still unproven: a success clears it, the next failure counts on
	}
	w.filesOf(step, &change)
	w.at("before-"+string(step.Event), w.s)
	s, err := w.Store.Commit(ctx, w.lease, change, store.Due{}) // stays due until the plan is empty
	if errors.Is(err, sandbox.ErrOvertaken) {
		w.s, err = w.Store.Sandbox(ctx, w.s.ID)
		return true, err
	}
	if err != nil {
		return false, err
	}
	w.Logger.InfoContext(ctx, "sandbox "+string(step.Event), "from", w.s.State, "to", s.State, "reason", change.Reason,
		"actor", w.actor, "driver", s.Spec.Driver, "generation", w.lease.Epoch, "incarnation", s.Incarnation)
	if !change.Lost.IsZero() {
		w.Metrics.LostChanges.Inc()
	}
	if step.Event == sandbox.EventStart {
		w.from = w.s.State
	}
	w.s, w.gaveUp = s, step.Event == sandbox.EventFail || step.Event == sandbox.EventHalted && step.Failure != nil
	w.at("after-"+string(step.Event), s)
	return false, nil
}

// ask is a timer's wish. It is void if the sandbox was used or asked for otherwise since it was read.
func (w *work) ask(ctx context.Context, step sandbox.Step) error {
	s, done, err := w.Store.Lapse(ctx, w.s, step.Want, step.Reason, "timer")
	if err == nil && !done {
		s, err = w.Store.Sandbox(ctx, w.s.ID)
	}
	if err == nil {
		w.s = s
	}
	return err
}

// Labels of an instance.
const (
	LabelTemplate     = "berth.template"     // its sandbox's template
	LabelInstallation = "berth.installation" // whose it is
)

func (w *work) create(ctx context.Context) error {
	spec := driver.Spec{
		Key:    driver.Key{Sandbox: w.s.ID, Incarnation: w.s.Incarnation},
		Tenant: w.s.Owner.Tenant,
		Labels: map[string]string{"berth.owner.kind": string(w.s.Owner.Kind), "berth.owner.id": w.s.Owner.ID, LabelTemplate: w.s.Spec.Template},
	}
	if w.Installation != "" {
		spec.Labels[LabelInstallation] = w.Installation
	}
	if w.Templates != nil {
		if err := w.Templates.Prepare(w.s, &spec); err != nil {
			return err
		}
	}
	st, err := w.driver.Create(ctx, spec)
	if err != nil {
		return err
	}
	w.made = sandbox.InstanceID(st.ID)
	if st.Phase != driver.PhaseRunning {
		// Found after a lost reply, and something has happened to it since.
		return fmt.Errorf("the new instance is %s: %w", st.Phase, driver.ErrNotRunning)
	}
	w.Metrics.SandboxCreates.Inc()
	if w.s.Incarnation > 1 {
		w.Logger.InfoContext(ctx, telemetry.EventResolveRecreate, "incarnation", w.s.Incarnation, "instance", st.ID)
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
		w.Metrics.SandboxResumes.Inc()
		w.Logger.InfoContext(ctx, telemetry.EventResolveReuse, "resumed", true, "instance", w.s.Instance)
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

// unlessMissing turns the driver's confirmed not-found into an observation to plan on.
func (w *work) unlessMissing(err error) (again bool, _ error) {
	if errors.Is(err, driver.ErrNotFound) {
		w.seen = sandbox.Observation{Sight: sandbox.Missing, Detail: w.scrub(err.Error())}
		return true, nil
	}
	return false, err
}

// broken deals with a step that failed and returns the error for the caller. What this attempt made is
// ended; a start that cannot be undone now stays as it is, for the next pass to find.
func (w *work) broken(ctx context.Context, step sandbox.Step, err error) error {
	if lost := context.Cause(ctx); errors.Is(lost, sandbox.ErrStale) {
		err = lost // whatever the driver or the store said of the cancelled call
	}
	if errors.Is(err, sandbox.ErrStale) {
		w.at("stale", w.s)
		w.Metrics.StaleCommits.Inc()
		w.disown(ctx)
		return err
	}
	told := w.told(step, err)
	switch step.Op {
	case sandbox.OpCreate, sandbox.OpStart, sandbox.OpRestore, sandbox.OpHeal:
	default:
		return told
	}
	ctx, cancel := w.aftermath(ctx)
	defer cancel()
	var stopped error
	if w.s.Instance == "" {
		if cleanErr := w.cleanUp(ctx); cleanErr != nil {
			return errors.Join(told, cleanErr)
		}
	} else if step.Op != sandbox.OpHeal {
		_, stopped = w.stop(ctx) // as it was before; one that cannot be stopped is found running
	}
	if w.s.Instance == "" {
		w.synced = w.s.Synced // whatever was restored is gone with it
	}
	w.made = ""
	event := sandbox.EventFail
	if told.Code == api.CodeHookFailed && w.from == sandbox.Stopped && stopped == nil {
		event = sandbox.EventHalted // a start from stopped that a hook refuses stays stopped
	}
	_, failed := w.mark(ctx, sandbox.Step{Op: sandbox.OpMark, Event: event, Reason: told.Error(), Failure: w.failed(told)})
	return errors.Join(told, failed)
}

// disown ends the instance that this holder made and may not record any more. If its own commit went
// through although the answer was lost, the instance is the sandbox's, and stays. Nothing else is
// touched: whatever is recorded by now belongs to the new holder.
func (w *work) disown(ctx context.Context) {
	if w.made == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// The generation has moved on, so that our commit has come through by now or never will.
	row, err := w.Store.Sandbox(ctx, w.s.ID)
	if err == nil && row.Instance == w.made {
		return
	}
	if err == nil {
		err = w.driver.Destroy(ctx, driver.ID(w.made))
	}
	if err != nil {
		w.Logger.WarnContext(ctx, "end a disowned instance; the next pass over this sandbox ends it", "instance", w.made, "error", err)
	}
}

// cleanUp ends every instance of a sandbox that has none recorded: whatever an unfinished create made.
func (w *work) cleanUp(ctx context.Context) error {
	o, err := w.observe(ctx)
	if err != nil {
		return err
	}
	if o.Sight == sandbox.Unreachable {
		return sandbox.Errorf("clean up", api.CodeDriverUnreachable, "%s", o.Detail)
	}
	for _, id := range o.Strays {
		if err := w.destroy(ctx, driver.ID(id)); err != nil {
			return fmt.Errorf("clean up instance %s: %w", id, err)
		}
	}
	return nil
}

// told is a driver's error in Berth's words.
func (w *work) told(step sandbox.Step, err error) *sandbox.Error {
	var known *sandbox.Error
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
	case final(err):
		code = api.CodeDriverRefused
	case errors.Is(err, driver.ErrQuota), errors.Is(err, driver.ErrNotRunning):
		code = api.CodeCreateFailed
	}
	op := fmt.Sprintf("%s sandbox %s", step.Op, w.s.ID)
	return sandbox.Errorf(op, code, "%s: %w", who, &scrubbed{w.scrub(err.Error()), err})
}

// scrubbed is an error without the secrets in its words.
type scrubbed struct {
	text string
	err  error
}

func (e *scrubbed) Error() string { return e.text }
func (e *scrubbed) Unwrap() error { return e.err }

// scrub takes the values of the sandbox's environment out of a driver's words: a driver may repeat
// what it was given, and those words are stored, logged and shown.
func (w *work) scrub(text string) string {
	secrets := new(telemetry.Redactor)
	for _, value := range w.s.Spec.Env {
		secrets.Add(value)
	}
	return secrets.String(text)
}

// final reports whether the same request would meet the same error for ever.
func final(err error) bool {
	return errors.Is(err, driver.ErrUnauthenticated) || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnsupported)
}

// failed is the failure to record for an error: one more in a row, unless the sandbox was used since
// the last.
func (w *work) failed(err error) *sandbox.Failure {
	f := &sandbox.Failure{Code: sandbox.CodeOf(err), Message: w.scrub(err.Error()), At: w.now(), Want: w.s.Want, Attempts: 1, Final: final(err) || sandbox.CodeOf(err) == api.CodeHookFailed}
	if w.s.Failure != nil && !w.s.ActiveAt.After(w.s.Failure.At) {
		f.Attempts += w.s.Failure.Attempts
	}
	return f
}
