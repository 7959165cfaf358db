package access

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/workspacesync"
)

// Sandboxes finds the sandboxes that a caller may see.
type Sandboxes struct {
	Engine Engine
	Store  *store.DB
	Chat   *chat.Service         // nil: there are no conversations
	Syncer *workspacesync.Syncer // nil: workspaces are not saved
	// DeleteWait is the maximum wait of a request for the end of its delete.
	DeleteWait time.Duration
}

// Engine has the methods of the engine that the routes use.
type Engine interface {
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	Down(ctx context.Context, actor string) (stopped, failed int, err error)
	Sweep(ctx context.Context, o engine.SweepOptions) (engine.Sweep, error)
	Forget(ctx context.Context, host string, force bool, actor string) ([]engine.Forgotten, error)
	Inspect(ctx context.Context, s sandbox.Sandbox) (engine.Inspection, error)
	Upcoming(s sandbox.Sandbox) []sandbox.Upcoming
	Instance(ctx context.Context, s sandbox.Sandbox) (driver.Status, error)
	Usage(ctx context.Context, s sandbox.Sandbox) (driver.Usage, error)
	Handle(tenant, id, actor string) *engine.Handle
	HandleOn(s sandbox.Sandbox, actor string) *engine.Handle
	HandleFor(r engine.Request) *engine.Handle
	Check(ctx context.Context) []api.Check
	Unlimited(driver string) []string
	CheckTemplate(tenant, name string) error
}

// ReachProblems are the problems of routes that need the sandbox to run.
var ReachProblems = []api.Code{
	api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeNotRunning, api.CodeWrongHost, api.CodeUnsupported,
	api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy,
}

// InterruptProblems are the problems of routes that would end a running turn.
var InterruptProblems = append([]api.Code{api.CodeTurnRunning}, ReachProblems...)

// Ending has the parameter of routes that delete an instance's files.
type Ending struct {
	Sync bool `query:"sync" default:"true" doc:"Save the workspace first, if the server saves workspaces"`
}

// EnsureProblems are the problems of routes that start a project's sandbox.
var EnsureProblems = []api.Code{
	api.CodeInvalidID, api.CodeUnknownDriver, api.CodeQuotaExceeded, api.CodeWrongHost, api.CodeUnsupported,
	api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy,
}

// OperationFunc returns an operation on sandboxes. path is relative to the path of all sandboxes.
type OperationFunc func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) rest.Operation

// Operations returns the OperationFunc for the sandboxes below a base path. With twin, the operations are copies for
// older clients, which the OpenAPI document does not have.
func Operations(base string, twin bool) OperationFunc {
	return func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) rest.Operation {
		return rest.Operation{
			Route: exchange.Route{Method: method, Path: base + path, Name: name, Scope: scope, Hidden: twin},
			Tag:   "Sandboxes", Summary: summary, Problems: problems,
		}
	}
}

// ByRef is the path parameter of routes for one sandbox, which is named by its id or its name.
type ByRef struct {
	ID string `path:"id" doc:"The sandbox's id or name"`
}

// In returns the part of the store that the caller may see.
func (a *Sandboxes) In(ctx context.Context) store.Scope {
	who, _ := auth.PrincipalFrom(ctx)
	return a.Store.In(store.TenantID(who.Tenant)).Within(who.Within())
}

// Find finds a sandbox by id or name. It still finds a sandbox that is being deleted, so that a repeated delete joins
// the first one and clients can watch it. When the sandbox is gone, the error has the code deleted.
func (a *Sandboxes) Find(ctx context.Context, ref string) (sandbox.Sandbox, error) {
	s, err := a.Record(ctx, ref)
	if err == nil && s.Deleted() && s.Settled() {
		return a.In(ctx).ByID(ctx, s.ID) // returns the store's error for a tombstone
	}
	return s, err
}

// Record finds a sandbox by id or name. A name finds it until its delete is complete, an id also after that.
func (a *Sandboxes) Record(ctx context.Context, ref string) (sandbox.Sandbox, error) {
	id, name, err := sandbox.ParseRef(ref)
	switch {
	case err != nil:
		return sandbox.Sandbox{}, err
	case name != "":
		return bound(ctx)(a.In(ctx).ByNameOrDeleting(ctx, name))
	}
	return bound(ctx)(a.In(ctx).ByIDOrDeleted(ctx, id))
}

// bound returns a function that hides every sandbox but the one that the caller is bound to, if it is bound to one.
func bound(ctx context.Context) func(sandbox.Sandbox, error) (sandbox.Sandbox, error) {
	return func(s sandbox.Sandbox, err error) (sandbox.Sandbox, error) {
		if who, _ := auth.PrincipalFrom(ctx); err == nil && who.Sandbox != "" && s.ID != who.Sandbox {
			return sandbox.Sandbox{}, fault.Errorf("find sandbox", api.CodeNotFound, "the URL is for another sandbox")
		}
		return s, err
	}
}

// Handle finds a sandbox by id or name and returns a handle on it and its row.
func (a *Sandboxes) Handle(ctx context.Context, ref string) (*engine.Handle, sandbox.Sandbox, error) {
	s, err := a.Find(ctx, ref)
	if err != nil {
		return nil, s, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	return a.Engine.HandleOn(s, who.Actor()), s, nil
}

// ResolveID returns the stored id of the sandbox with the given id or name. A sandbox that is given by id need not exist.
func (a *Sandboxes) ResolveID(ctx context.Context, ref string) (string, error) {
	id, name, err := sandbox.ParseRef(ref)
	if err != nil {
		return "", err
	}
	if name == "" {
		return a.In(ctx).SandboxID(ctx, id)
	}
	s, err := a.In(ctx).ByName(ctx, name)
	return s.ID, err
}

// GuestError adds the code to an error of the helper.
func GuestError(op string, err error) error {
	if errors.As(err, new(*exchange.Problem)) {
		return err
	}
	return engine.WrapGuest(op, err)
}

// SetNotice sets the header that describes what happened to a sandbox's files since lastUse: the version that was
// restored, and the changes that were lost. It sets nothing if there is nothing to describe, or if lastUse is zero.
func SetNotice(ctx context.Context, lastUse time.Time, now sandbox.Sandbox) {
	setNotice(ctx, engine.Notice(lastUse, now))
}

// SetHandleNotice is SetNotice for the time between the last use before the handle and the last use of the handle.
func SetHandleNotice(ctx context.Context, h *engine.Handle) { setNotice(ctx, h.Notice()) }

func setNotice(ctx context.Context, notice string) {
	if notice != "" {
		exchange.Of(ctx).Header().Set(api.HeaderNotice, notice)
	}
}

// RunForChange starts a sandbox before its files are changed. If an existing instance cannot start because of a hook,
// a mass delete or a full disk, it returns nil: the change may be what makes the start possible.
func RunForChange(ctx context.Context, h *engine.Handle, s sandbox.Sandbox) error {
	_, err := h.Sandbox(ctx)
	switch fault.CodeOf(err) {
	case api.CodeHookFailed, api.CodeMassDelete, api.CodeServerDiskFull:
		if s.Instance != "" {
			return nil
		}
	}
	return err
}

// CheckSpec checks environment variables and metadata before anything is stored.
func CheckSpec(s sandbox.Spec) error {
	if err := sandbox.CheckEnv(s.Env); err != nil {
		return exchange.InvalidField("body.env", err.Error())
	}
	if err := sandbox.CheckMetadata(s.Metadata); err != nil {
		return exchange.InvalidField("body.metadata", err.Error())
	}
	return nil
}

// HideEnv removes the values of the sandbox's environment from the answer and the log of this request. A driver may
// repeat them in its errors.
func HideEnv(ctx context.Context, env map[string]string) {
	if len(env) == 0 {
		return
	}
	x, hide := exchange.Of(ctx), engine.HideEnv(env)
	before := x.Clean
	x.Clean = func(text string) string { return hide(before(text)) }
}

// ShowDeleted answers a delete: 204 if nothing is left, otherwise 202 with the sandbox.
func ShowDeleted[T any](s sandbox.Sandbox, err error, convert func(sandbox.Sandbox) T) (*rest.Deleted[T], error) {
	switch {
	case err != nil:
		return nil, err
	case s.State == sandbox.Terminated:
		return &rest.Deleted[T]{Status: http.StatusNoContent}, nil
	}
	left := convert(s)
	return &rest.Deleted[T]{Status: http.StatusAccepted, Body: &left}, nil
}

// TimePtr returns a pointer to t, or nil for the zero time.
func TimePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// TenantOf returns the tenant of the caller.
func TenantOf(ctx context.Context) string {
	who, _ := auth.PrincipalFrom(ctx)
	return who.Tenant
}
