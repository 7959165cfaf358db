package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// Options configures a Runner.
type Options struct {
	// Of returns the hooks of a template in the order in which they run. Nil: the template is unknown.
	Of func(template string) []Spec
	// Builtins holds the built-in hooks by name.
	Builtins map[string]Func
	// S3 returns the location of the versions of a sandbox's workspace; nil if it is not saved.
	S3       func(sandbox.Sandbox) *S3
	Webhooks *Webhooks // nil: webhooks cannot be called
	// Remember stores the metadata and stats that hooks of a start or an end set; nil: they are lost. Turns store
	// those of their own hooks.
	Remember func(ctx context.Context, d *Data) error
	// Conversation returns the id of the conversation that a thread's sandbox was made for; nil: hooks do not get it.
	Conversation func(ctx context.Context, s sandbox.Sandbox) (string, error)
	Log          *slog.Logger
	Metrics      *telemetry.Metrics
}

// Runner runs the hooks of templates. It is safe for concurrent use.
type Runner struct{ opts Options }

// New returns a runner.
func New(o Options) *Runner { return &Runner{o} }

// ColdStart runs the cold start hooks of an instance that is up, and pull at the place of Pull among them; first if it
// is not listed. It stops at the first error, which fails the start.
func (r *Runner) ColdStart(ctx context.Context, h *engine.Handle, pull func(context.Context) error) error {
	d, err := r.dataOf(ctx, h)
	if err != nil {
		return err
	}
	specs := r.opts.Of(d.Record.Spec.Template)
	at := slices.IndexFunc(specs, func(s Spec) bool { return s.Builtin == Pull })
	failed := r.runSome(ctx, OnColdStart, d, func(i int) bool { return i < at })
	if len(failed) == 0 {
		if err := r.pull(ctx, specs, at, d, pull); err != nil {
			return err
		}
		failed = r.runSome(ctx, OnColdStart, d, func(i int) bool { return i > at })
	}
	if len(failed) > 0 {
		return refusal(ctx, errors.Join(failed...))
	}
	r.remember(ctx, d)
	if slices.ContainsFunc(specs, func(s Spec) bool { return s.Phase == OnColdStart && s.URL == "" && s.Builtin != Pull }) {
		h.Changed(ctx)
	}
	return nil
}

// pull restores the workspace. It is not abandoned at its timeout as other hooks are: nothing may write into the
// workspace after the start has gone on.
func (r *Runner) pull(ctx context.Context, specs []Spec, at int, d *Data, pull func(context.Context) error) error {
	if at < 0 {
		return pull(ctx)
	}
	ctx = r.prepare(ctx, OnColdStart, d)
	short, cancel := context.WithTimeout(ctx, specs[at].timeout())
	defer cancel()
	begun := time.Now()
	err := pull(short)
	if !errors.Is(err, sandbox.ErrOvertaken) {
		_ = r.report(ctx, specs[at], d, begun, err)
	}
	return err
}

// Drops reports whether the template drops a default hook.
func (r *Runner) Drops(template, builtin string) bool {
	specs := r.opts.Of(template)
	return specs != nil && !slices.ContainsFunc(specs, func(s Spec) bool { return s.Builtin == builtin })
}

// refusal returns the error of a cold start. Its code is api.CodeHookFailed, unless the hook could not be run.
func refusal(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, errUnreached) {
		return err
	}
	return fault.Errorf("run cold start hooks", api.CodeHookFailed, "%w", err)
}

// dataOf returns the data for the hooks of a start or an end.
func (r *Runner) dataOf(ctx context.Context, h *engine.Handle) (*Data, error) {
	s, err := h.Sandbox(ctx)
	d := &Data{Record: s, Handle: h}
	switch {
	case err != nil:
	case s.Owner.Kind == sandbox.OwnerConversation:
		d.ConversationID = s.Owner.ID
	case s.Owner.Kind == sandbox.OwnerThread && r.opts.Conversation != nil:
		d.ConversationID, err = r.opts.Conversation(ctx, s)
	}
	return d, err
}

// remember stores the values that hooks have set, and logs an error of it.
func (r *Runner) remember(ctx context.Context, d *Data) {
	if r.opts.Remember == nil || len(d.metadata) == 0 && len(d.stats) == 0 {
		return
	}
	if err := r.opts.Remember(ctx, d); err != nil {
		r.opts.Log.ErrorContext(ctx, "store what hooks set", "type", string(d.Phase), telemetry.FieldSandboxID, d.Sandbox.ID, "error", err)
	}
}

// Terminate runs the terminate hooks before an instance is destroyed. It logs their errors and does not return them.
func (r *Runner) Terminate(ctx context.Context, h *engine.Handle) error {
	d, err := r.dataOf(ctx, h)
	if err != nil {
		return err
	}
	r.run(ctx, OnTerminate, d)
	r.remember(ctx, d)
	return nil
}

// Message runs the message hooks after a message was stored. It logs their errors.
func (r *Runner) Message(ctx context.Context, d *Data) {
	r.run(ctx, OnMessage, d)
}

// StreamFinish runs the hooks of the end of a turn that are listed before Push, or all of them if the template has no
// Push. It returns the errors as warnings for people; they do not fail the turn.
func (r *Runner) StreamFinish(ctx context.Context, d *Data) (warnings []string) {
	push := r.pushAt(d.Record.Spec.Template)
	return messages(r.runSome(ctx, OnStreamFinish, d, func(i int) bool { return push < 0 || i < push }))
}

// Pushes reports whether the template's hooks save the workspace after each turn.
func (r *Runner) Pushes(template string) bool { return r.pushAt(template) >= 0 }

// Push runs save as the template's Push hook: with the hook's timeout, log entries and metrics.
func (r *Runner) Push(ctx context.Context, d *Data, save Func) error {
	push := r.pushAt(d.Record.Spec.Template)
	if push < 0 {
		return save(ctx, d) // the template has changed since the turn
	}
	ctx = r.prepare(ctx, OnStreamFinish, d)
	spec := r.opts.Of(d.Record.Spec.Template)[push]
	spec.Run = save
	return r.runHook(ctx, spec, push, d)
}

// Behind reports whether hooks of the template run after the save of a turn.
func (r *Runner) Behind(template string) bool {
	push := r.pushAt(template)
	for i, s := range r.opts.Of(template) {
		if s.Phase == OnVersionSaved || s.Phase == OnStreamFinish && i > push && !s.outside() {
			return true
		}
	}
	return false
}

// AfterPush runs the hooks of the end of a turn that are listed after Push and, if a version was saved, the hooks of
// OnVersionSaved. It returns the errors as warnings for people.
func (r *Runner) AfterPush(ctx context.Context, d *Data) (warnings []string) {
	push := r.pushAt(d.Record.Spec.Template)
	failed := r.runSome(ctx, OnStreamFinish, d, func(i int) bool { return push >= 0 && i > push })
	if d.Version != "" {
		failed = append(failed, r.run(ctx, OnVersionSaved, d)...)
	}
	return messages(failed)
}

// pushAt returns the index of Push in the hooks of a template, or -1.
func (r *Runner) pushAt(template string) int {
	return slices.IndexFunc(r.opts.Of(template), func(s Spec) bool { return s.Phase == OnStreamFinish && s.Builtin == Push })
}

func messages(failed []error) (warnings []string) {
	for _, err := range failed {
		warnings = append(warnings, err.Error())
	}
	return warnings
}

// run runs the hooks of a phase in their order and returns their errors. In a critical phase it stops at the first
// error.
func (r *Runner) run(ctx context.Context, phase Phase, d *Data) (failed []error) {
	return r.runSome(ctx, phase, d, func(int) bool { return true })
}

// runSome is like run, but only runs hooks for whose index in the template's hooks picked returns true.
func (r *Runner) runSome(ctx context.Context, phase Phase, d *Data, picked func(place int) bool) (failed []error) {
	ctx = r.prepare(ctx, phase, d)
	for i, spec := range r.opts.Of(d.Sandbox.Template) {
		if spec.Phase != phase || spec.outside() || !picked(i) {
			continue
		}
		if err := r.runHook(ctx, spec, i, d); err != nil {
			failed = append(failed, fmt.Errorf("hook %s: %w", spec.Title(), err))
			if phase.critical() {
				return failed
			}
		}
	}
	return failed
}

// prepare fills in the data for the hooks of a phase and returns a context with their log fields.
func (r *Runner) prepare(ctx context.Context, phase Phase, d *Data) context.Context {
	if d.Version == "" && phase != OnStreamFinish {
		d.Version = d.Record.Synced.Version
	}
	d.Phase = phase
	d.Sandbox = infoOf(d.Record, nil)
	if r.opts.S3 != nil {
		d.Sandbox.S3 = r.opts.S3(d.Record)
	}
	if d.TurnID != "" {
		ctx = telemetry.With(ctx, slog.String("conversation_id", d.ConversationID), slog.String("turn_id", d.TurnID))
	}
	return telemetry.With(ctx,
		slog.String(telemetry.FieldTenant, d.Sandbox.Tenant), slog.String(telemetry.FieldSandboxID, d.Sandbox.ID),
		slog.String(telemetry.FieldOwnerKind, d.Sandbox.Owner.Kind), slog.String(telemetry.FieldOwnerID, d.Sandbox.Owner.ID))
}

// runHook runs one hook on a copy of the data, with its timeout, and logs and counts the result.
func (r *Runner) runHook(ctx context.Context, spec Spec, index int, d *Data) error {
	own, begun := *d, time.Now()
	do := r.action(spec, index)
	left, err := guarded(ctx, spec.timeout(), func(ctx context.Context) error { return do(ctx, &own) })
	if !left {
		d.take(&own)
	}
	return r.report(ctx, spec, d, begun, err)
}

// report logs and counts the result of a hook, and returns its error without secrets.
func (r *Runner) report(ctx context.Context, spec Spec, d *Data, begun time.Time, err error) error {
	took := time.Since(begun)
	about := []any{"type", string(spec.Phase), "hook", spec.Title(), "template", d.Sandbox.Template, "duration", took.String()}
	outcome := "ok"
	if err != nil {
		outcome = "error"
		err = &redactedError{r.redact(d.Record, err.Error()), err}
		about = append(about, "message_id", d.Message.ID, "error", err.Error(), "stack", stackOf(err))
		r.opts.Log.ErrorContext(ctx, "hook failed", about...)
	} else {
		r.opts.Log.InfoContext(ctx, "hook ran", about...)
	}
	if r.opts.Metrics != nil {
		r.opts.Metrics.ObserveHook(string(spec.Phase), outcome, took)
	}
	return err
}

// action returns the function that runs the hook.
func (r *Runner) action(spec Spec, index int) Func {
	switch {
	case spec.Run != nil:
		return spec.Run
	case len(spec.Command) > 0:
		return func(ctx context.Context, d *Data) error { return execute(ctx, spec, index, d, nil) }
	case spec.URL != "" && r.opts.Webhooks != nil:
		return func(ctx context.Context, d *Data) error { return r.opts.Webhooks.enqueue(ctx, spec, d) }
	case r.opts.Builtins[spec.Builtin] != nil:
		return r.opts.Builtins[spec.Builtin]
	}
	return func(context.Context, *Data) error { return errors.New("this server cannot run it") }
}

// redactedError is an error whose text has no secrets of the sandbox's environment.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redact removes the values of the sandbox's environment from a text: a command may have written them. The text is
// logged, stored and shown.
func (r *Runner) redact(s sandbox.Sandbox, text string) string {
	secrets := new(telemetry.Redactor)
	for _, value := range s.Spec.Env {
		secrets.Add(value)
	}
	return secrets.String(text)
}

// stackOf returns the stack of the panic, or the current stack if the hook did not panic.
func stackOf(err error) string {
	if p, ok := errors.AsType[*panicked](err); ok {
		return p.stack
	}
	return string(debug.Stack())
}
