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
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/telemetry"
)

// Runner runs the hooks of templates. It is safe for concurrent use.
type Runner struct {
	// Of are the hooks of a template, in their order.
	Of func(template string) []Spec
	// Builtins are the hooks that Berth has under a name.
	Builtins map[string]Func
	// S3 is where the versions of a sandbox's workspace are; nil: nowhere.
	S3      func(sandbox.Sandbox) *S3
	Drivers map[string]driver.Driver
	// Command adds to a command what every command in the sandbox has.
	Command  func(sandbox.Sandbox, guest.Cmd) guest.Cmd
	Webhooks *Webhooks // nil: none can be called
	// Remember stores what the hooks of a start or an end have set; nil: it is lost. Turns store it themselves.
	Remember func(ctx context.Context, d *Data) error
	// Changed is called when a cold start's hooks may have changed files; nil: not.
	Changed func(context.Context, sandbox.Sandbox)
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// ColdStart runs when an instance is up and its workspace is there. The first error ends it and fails the
// start.
func (r *Runner) ColdStart(ctx context.Context, s sandbox.Sandbox, id driver.ID) error {
	d := ofSandbox(s)
	failed := errors.Join(r.run(ctx, OnColdStart, id, d)...)
	if failed == nil {
		r.remember(ctx, d)
	}
	works := func(spec Spec) bool { return spec.Phase == OnColdStart && spec.URL == "" }
	if failed == nil && r.Changed != nil && slices.ContainsFunc(r.Of(s.Spec.Template), works) {
		r.Changed(ctx, s)
	}
	return refusal(ctx, failed)
}

// refusal is the error of a cold start in the hook's words: api.CodeHookFailed, unless the hook could not be run.
func refusal(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, errUnreached) {
		return err
	}
	return sandbox.Errorf("run cold start hooks", api.CodeHookFailed, "%w", err)
}

// ofSandbox is the data of a start or an end.
func ofSandbox(s sandbox.Sandbox) *Data {
	d := &Data{Record: s}
	if s.Owner.Kind == sandbox.OwnerConversation {
		d.ConversationID = s.Owner.ID
	}
	return d
}

func (r *Runner) remember(ctx context.Context, d *Data) {
	if r.Remember == nil || len(d.metadata) == 0 && len(d.stats) == 0 {
		return
	}
	if err := r.Remember(ctx, d); err != nil {
		r.Log.ErrorContext(ctx, "store what hooks set", "type", string(d.Phase), telemetry.FieldSandboxID, d.Sandbox.ID, "error", err)
	}
}

// Terminate runs before an instance ends for good. Errors are in the log, and it returns none.
func (r *Runner) Terminate(ctx context.Context, s sandbox.Sandbox) error {
	d := ofSandbox(s)
	r.run(ctx, OnTerminate, driver.ID(s.Instance), d)
	r.remember(ctx, d)
	return nil
}

// Message runs after a message was stored. Errors are in the log.
func (r *Runner) Message(ctx context.Context, d *Data) {
	r.run(ctx, OnMessage, driver.ID(d.Record.Instance), d)
}

// StreamFinish runs after a turn, however it ended, the hooks that stand before Push, or all where Push is not
// among them. It returns what did not work, for people; nothing of it fails the turn.
func (r *Runner) StreamFinish(ctx context.Context, d *Data) (warnings []string) {
	push := r.pushAt(d.Record.Spec.Template)
	return said(r.runSome(ctx, OnStreamFinish, driver.ID(d.Record.Instance), d, func(i int) bool { return push < 0 || i < push }))
}

// Pushes reports whether the template has its workspaces saved after each turn.
func (r *Runner) Pushes(template string) bool { return r.pushAt(template) >= 0 }

// Push runs save as the hook that saves the workspace after a turn: within its time, logged and counted.
func (r *Runner) Push(ctx context.Context, d *Data, save Func) error {
	push := r.pushAt(d.Record.Spec.Template)
	if push < 0 {
		return save(ctx, d) // the template has changed since the turn
	}
	ctx = r.prepare(ctx, OnStreamFinish, driver.ID(d.Record.Instance), d)
	spec := r.Of(d.Record.Spec.Template)[push]
	spec.Run = save
	return r.one(ctx, spec, push, d)
}

// Behind reports whether hooks of the template run behind the save of a turn.
func (r *Runner) Behind(template string) bool {
	push := r.pushAt(template)
	for i, s := range r.Of(template) {
		if s.Phase == OnVersionSaved || s.Phase == OnStreamFinish && i > push {
			return true
		}
	}
	return false
}

// AfterPush runs the hooks of the end of a turn that stand behind Push, and those for a version that was saved.
// It returns what did not work, for people.
func (r *Runner) AfterPush(ctx context.Context, d *Data) (warnings []string) {
	push, id := r.pushAt(d.Record.Spec.Template), driver.ID(d.Record.Instance)
	failed := r.runSome(ctx, OnStreamFinish, id, d, func(i int) bool { return push >= 0 && i > push })
	if d.Version != "" {
		failed = append(failed, r.run(ctx, OnVersionSaved, id, d)...)
	}
	return said(failed)
}

// pushAt is the place of Push among the hooks of a template, -1 if it has none.
func (r *Runner) pushAt(template string) int {
	return slices.IndexFunc(r.Of(template), func(s Spec) bool { return s.Phase == OnStreamFinish && s.Builtin == Push })
}

func said(failed []error) (warnings []string) {
	for _, err := range failed {
		warnings = append(warnings, err.Error())
	}
	return warnings
}

// run runs the hooks of a phase in their order and returns their errors: all of them, or the first where the
// phase is critical.
func (r *Runner) run(ctx context.Context, phase Phase, id driver.ID, d *Data) (failed []error) {
	return r.runSome(ctx, phase, id, d, func(int) bool { return true })
}

// runSome is run for those hooks of a phase whose place among the template's hooks is picked.
func (r *Runner) runSome(ctx context.Context, phase Phase, id driver.ID, d *Data, picked func(place int) bool) (failed []error) {
	ctx = r.prepare(ctx, phase, id, d)
	for i, spec := range r.Of(d.Sandbox.Template) {
		if spec.Phase != phase || !picked(i) {
			continue
		}
		if err := r.one(ctx, spec, i, d); err != nil {
			failed = append(failed, fmt.Errorf("hook %s: %w", spec.Title(), err))
			if phase.critical() {
				return failed
			}
		}
	}
	return failed
}

// prepare fills in the data for the hooks of a phase.
func (r *Runner) prepare(ctx context.Context, phase Phase, id driver.ID, d *Data) context.Context {
	if d.Version == "" && phase != OnStreamFinish {
		d.Version = d.Record.Synced.Version
	}
	d.Phase, d.in = phase, &box{r, d.Record, id}
	d.Sandbox = infoOf(d.Record, nil)
	if r.S3 != nil {
		d.Sandbox.S3 = r.S3(d.Record)
	}
	return telemetry.With(ctx,
		slog.String(telemetry.FieldTenant, d.Sandbox.Tenant), slog.String(telemetry.FieldSandboxID, d.Sandbox.ID),
		slog.String(telemetry.FieldOwnerKind, d.Sandbox.Owner.Kind), slog.String(telemetry.FieldOwnerID, d.Sandbox.Owner.ID))
}

// one runs one hook on a copy of the data, within its time, and writes down how it went.
func (r *Runner) one(ctx context.Context, spec Spec, index int, d *Data) error {
	own, begun := *d, time.Now()
	do := r.action(spec, index)
	left, err := guarded(ctx, spec.timeout(), func(ctx context.Context) error { return do(ctx, &own) })
	took := time.Since(begun)
	if !left {
		d.take(&own)
	}
	about := []any{"type", string(spec.Phase), "hook", spec.Title(), "template", d.Sandbox.Template, "duration", took.String()}
	if d.TurnID != "" {
		about = append(about, "conversation_id", d.ConversationID, "turn_id", d.TurnID)
	}
	outcome := "ok"
	if err != nil {
		outcome = "error"
		err = &scrubbed{r.scrub(d.Record, err.Error()), err}
		about = append(about, "message_id", d.Message.ID, "error", err.Error(), "stack", stackOf(err))
		r.Log.ErrorContext(ctx, "hook failed", about...)
	} else {
		r.Log.InfoContext(ctx, "hook ran", about...)
	}
	if r.Metrics != nil {
		r.Metrics.ObserveHook(string(spec.Phase), outcome, took)
	}
	return err
}

// action is what the hook does.
func (r *Runner) action(spec Spec, index int) Func {
	switch {
	case spec.Run != nil:
		return spec.Run
	case len(spec.Command) > 0:
		return func(ctx context.Context, d *Data) error { return execute(ctx, spec, index, d, nil) }
	case spec.URL != "" && r.Webhooks != nil:
		return func(ctx context.Context, d *Data) error { return r.Webhooks.enqueue(ctx, spec, d) }
	case r.Builtins[spec.Builtin] != nil:
		return r.Builtins[spec.Builtin]
	}
	return func(context.Context, *Data) error { return errors.New("this server cannot run it") }
}

// scrubbed is an error without the secrets of the sandbox's environment in its words.
type scrubbed struct {
	text string
	err  error
}

func (e *scrubbed) Error() string { return e.text }
func (e *scrubbed) Unwrap() error { return e.err }

// scrub takes the values of the sandbox's environment out of what is logged, stored and shown: a command
// may have written anything.
func (r *Runner) scrub(s sandbox.Sandbox, text string) string {
	secrets := new(telemetry.Redactor)
	for _, value := range s.Spec.Env {
		secrets.Add(value)
	}
	return secrets.String(text)
}

// stackOf is where a hook panicked, or else where it was called.
func stackOf(err error) string {
	if p, ok := errors.AsType[*panicked](err); ok {
		return p.stack
	}
	return string(debug.Stack())
}
