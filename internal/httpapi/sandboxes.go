package httpapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/telemetry"
)

const sandboxesPath = "/api/v1/sandboxes"

// addSandboxes adds the routes of sandboxes twice: older callers say "sandbox". Still older ones have one of
// them at the root.
func (a *Handler) addSandboxes() {
	for _, base := range []string{sandboxesPath, "/api/v1/sandbox"} {
		a.addSandboxesAt(base, base != sandboxesPath)
	}
	a.addClaude(sandboxOps("/sandboxes", true))
}

// opMaker begins an operation on sandboxes; its path is relative to theirs.
type opMaker func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) operation

func sandboxOps(base string, twin bool) opMaker {
	return func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) operation {
		return operation{
			route: route{Method: method, Path: base + path, Name: name, Scope: scope, Hidden: twin},
			Tag:   "Sandboxes", Summary: summary, Problems: problems,
		}
	}
}

func (a *Handler) addSandboxesAt(base string, twin bool) {
	op := sandboxOps(base, twin)
	create := op(http.MethodPost, "", "create-sandbox", api.ScopeWrite, "Get or create a sandbox, running",
		api.CodeInvalidID, api.CodeInvalidName, api.CodeNotFound, api.CodeDeleted, api.CodeDeleting, api.CodeSpecMismatch, api.CodeNameTaken,
		api.CodeUnknownTemplate, api.CodeUnknownDriver, api.CodeUnknownProfile, api.CodeQuotaExceeded,
		api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy)
	create.Description = "Answers once the sandbox is running: 201 if it is new, 200 if one with that id or name was there. The fields given must agree with it. " +
		"If the sandbox that had the name is still being deleted, it waits for its end, or answers 409 deleting after half of a request's time, 30 s at most."
	create.Status, create.Also = http.StatusCreated, map[int]string{http.StatusOK: "It was there already"}
	serve(a, create, a.createSandbox)

	serve(a, op(http.MethodGet, "", "list-sandboxes", api.ScopeRead, "List sandboxes, newest first", api.CodeInvalidCursor), a.listSandboxes)
	serve(a, op(http.MethodGet, "/{id}", "get-sandbox", api.ScopeRead, "Read a sandbox",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted), a.getSandbox)
	serve(a, op(http.MethodGet, "/{id}/history", "list-sandbox-history", api.ScopeRead, "What happened to a sandbox, newest first; also of a deleted one, by its id",
		api.CodeInvalidID, api.CodeNotFound, api.CodeInvalidCursor), a.sandboxHistory)

	remove := op(http.MethodDelete, "/{id}", "delete-sandbox", api.ScopeWrite, "Delete a sandbox for good",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted)
	remove.Description = "Answers 204 once nothing of it is left at its driver, or 202 if that takes longer; it then goes on by itself, and reading the sandbox shows how far it is. A repeated delete joins it. The name is free once nothing is left."
	remove.Status, remove.Also = http.StatusAccepted, map[int]string{http.StatusNoContent: "Gone"}
	serve(a, remove, a.deleteSandbox)

	a.addExplain(op)
	a.addLifecycle(op)
	a.addTerminate(op)
	a.addExec(op)
	a.addTerminal(op)
	a.addPorts(op)
	a.addFiles(op)
	a.addVersions(op)
	a.addClaude(op)
}

// in returns the part of the store that the caller may see.
func (a *Handler) in(ctx context.Context) store.Scope {
	who, _ := auth.PrincipalFrom(ctx)
	return a.Store.In(store.TenantID(who.Tenant)).Within(who.Within())
}

type createSandbox struct {
	MassDelete
	Body *api.CreateSandbox
}

func (a *Handler) createSandbox(ctx context.Context, in *createSandbox) (*made[api.Sandbox], error) {
	want := api.CreateSandbox{}
	if in.Body != nil {
		want = *in.Body
	}
	hideEnv(ctx, want.Env)
	r, err := request(ctx, want)
	if err != nil {
		return nil, err
	}
	err = a.mergeOwn(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) {
		return a.in(ctx).ByOwner(ctx, r.Owner.Kind, r.Owner.ID)
	})
	if err != nil {
		return nil, err
	}
	s, created, err := a.Engine.Ensure(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &made[api.Sandbox]{Status: http.StatusOK, Location: sandboxesPath + "/" + s.ID, Body: sandboxOut(s)}
	// Only this request, or an attempt at it whose answer was lost, can have made the id it chose.
	if created || s.ID == r.NewID {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// request is what the engine is asked for. A bare sandbox owns itself, by its name or else its id.
func request(ctx context.Context, want api.CreateSandbox) (engine.Request, error) {
	who, _ := auth.PrincipalFrom(ctx)
	r := engine.Request{
		Name: want.Name, NewID: effectID(ctx), Actor: who.Actor(), Account: who.AccountID, Within: who.Within(),
		Spec: sandbox.Spec{Template: want.Template, Driver: want.Driver, Profile: want.Profile, Env: want.Env, Metadata: want.Metadata},
	}
	if want.ID != "" {
		id, err := sandbox.ParseID(want.ID)
		if err != nil {
			return r, err
		}
		r.ID, r.NewID = id, ""
	}
	if want.Name != "" {
		if err := sandbox.CheckName(want.Name); err != nil {
			return r, err
		}
	}
	r.Owner = sandbox.Owner{Tenant: who.Tenant, Kind: sandbox.OwnerSandbox, ID: cmp.Or(r.Name, r.ID, r.NewID)}
	return r, checkSpec(r.Spec)
}

// checkSpec refuses what no driver could take, before anything is recorded.
func checkSpec(s sandbox.Spec) error {
	if err := sandbox.CheckEnv(s.Env); err != nil {
		return invalidField("body.env", err.Error())
	}
	if err := sandbox.CheckMetadata(s.Metadata); err != nil {
		return invalidField("body.metadata", err.Error())
	}
	return nil
}

// hideEnv keeps the values of the sandbox's environment out of whatever this request answers or logs:
// a driver may repeat them in its errors.
func hideEnv(ctx context.Context, env map[string]string) {
	if len(env) == 0 {
		return
	}
	x, hide := exchangeOf(ctx), withoutEnv(env)
	before := x.clean
	x.clean = func(text string) string { return hide(before(text)) }
}

func withoutEnv(env map[string]string) func(text string) string {
	r := new(telemetry.Redactor)
	for _, value := range env {
		r.Add(value)
	}
	return r.String
}

type listSandboxes struct {
	State     string `query:"state" enum:"pending,creating,running,unhealthy,stopping,stopped,starting,archived,terminating,terminated,error" doc:"Only those in this state"`
	OwnerKind string `query:"owner_kind" enum:"conversation,project,thread,sandbox" doc:"Only those of this kind of owner"`
	Template  string `query:"template" maxLength:"63" doc:"Only those of this template"`
	Driver    string `query:"driver" maxLength:"63" doc:"Only those of this driver"`
	Paging
}

func (a *Handler) listSandboxes(ctx context.Context, in *listSandboxes) (*reply[api.List[api.Sandbox]], error) {
	p, err := in.storePage("sandboxes")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Sandboxes(ctx, store.Filter{
		State: sandbox.State(in.State), OwnerKind: sandbox.OwnerKind(in.OwnerKind), Template: in.Template, Driver: in.Driver,
	}, p)
	if err != nil {
		return nil, err
	}
	return listOf("sandboxes", rows, next, sandboxOut), nil
}

// ByRef names one thing in a path by its id or its name.
type ByRef struct {
	ID string `path:"id" doc:"Its id or its name"`
}

func (a *Handler) getSandbox(ctx context.Context, in *ByRef) (*reply[api.Sandbox], error) {
	s, err := a.findSandbox(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := sandboxOut(s)
	if a.Open != nil {
		out.Frozen = a.Open(s, "").Frozen(ctx)
	}
	if a.Traffic != nil {
		out.Traffic = a.Traffic(s.ID)
	}
	open, err := a.in(ctx).OpenTurns(ctx, "", s.ID)
	if err == nil && len(open) > 0 {
		out.TurnID = open[0].ID
	}
	return &reply[api.Sandbox]{Body: out}, err
}

// findSandbox finds a sandbox by id or name. One that is being deleted is still found, so that a repeated
// delete joins the first and its end can be watched; once it is gone it is deleted.
func (a *Handler) findSandbox(ctx context.Context, ref string) (sandbox.Sandbox, error) {
	s, err := a.recordOf(ctx, ref)
	if err == nil && s.Deleted() && s.Settled() {
		return a.in(ctx).ByID(ctx, s.ID) // the store's own words for a tombstone
	}
	return s, err
}

type listHistory struct {
	ByRef
	Paging
}

func (a *Handler) sandboxHistory(ctx context.Context, in *listHistory) (*reply[api.List[api.Transition]], error) {
	s, err := a.recordOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before, err := parseCursor("history", in.Cursor)
	if err != nil || before.id != "" && before.id != s.ID {
		return nil, badCursor()
	}
	entries, next, err := a.in(ctx).History(ctx, s.ID, in.Limit, before.at)
	if err != nil {
		return nil, err
	}
	out := listOf("history", entries, store.Position{}, transitionOut)
	hide := withoutEnv(s.Spec.Env)
	for i := range out.Body.Items {
		out.Body.Items[i].Reason = hide(out.Body.Items[i].Reason)
	}
	if next > 0 {
		out.Body.NextCursor = cursor{"history", next, s.ID}.String()
	}
	return out, nil
}

// recordOf finds a sandbox by id or name: by its name until nothing of it is left, by its id also after that.
func (a *Handler) recordOf(ctx context.Context, ref string) (sandbox.Sandbox, error) {
	id, name, err := sandbox.ParseRef(ref)
	switch {
	case err != nil:
		return sandbox.Sandbox{}, err
	case name != "":
		return a.in(ctx).Named(ctx, name)
	}
	return a.in(ctx).Record(ctx, id)
}

// deleted is the answer to a delete: nothing, or what is still there.
type deleted[T any] struct {
	Status int
	Body   *T
}

func deletedOut[T any](s sandbox.Sandbox, err error, convert func(sandbox.Sandbox) T) (*deleted[T], error) {
	switch {
	case err != nil:
		return nil, err
	case s.State == sandbox.Terminated:
		return &deleted[T]{Status: http.StatusNoContent}, nil
	}
	rest := convert(s)
	return &deleted[T]{Status: http.StatusAccepted, Body: &rest}, nil
}

type deleteSandbox struct {
	ByRef
	Ending
	Purge bool `query:"purge" doc:"Remove its versions at once, too, without a last save; also those of one that was deleted before"`
}

func (a *Handler) deleteSandbox(ctx context.Context, in *deleteSandbox) (*deleted[api.Sandbox], error) {
	if in.Purge {
		done, err := a.purge(ctx, in.ID)
		if done || err != nil {
			return &deleted[api.Sandbox]{Status: http.StatusNoContent}, err
		}
		in.Sync = false
	}
	s, err := a.findSandbox(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.clearToDelete(ctx, s); err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	s, err = a.Engine.Delete(wait, who.Tenant, s.ID, who.Actor(), !in.Sync)
	return deletedOut(s, err, sandboxOut)
}

func sandboxOut(s sandbox.Sandbox) api.Sandbox {
	out := api.Sandbox{
		ID: s.ID, Name: s.Name, Owner: api.Owner{Kind: string(s.Owner.Kind), ID: s.Owner.ID},
		Template: s.Spec.Template, Driver: s.Spec.Driver, Profile: s.Spec.Profile,
		State: string(s.State), Want: string(s.Want),
		Env: slices.Sorted(maps.Keys(s.Spec.Env)), Metadata: s.Spec.Metadata,
		Instance: string(s.Instance), Incarnation: s.Incarnation, Finalizers: s.Finalizers,
		CreatedAt: s.CreatedAt, StartedAt: moment(s.StartedAt), ActiveAt: s.ActiveAt, DeletedAt: moment(s.DeletedAt),
	}
	out.Error, out.Saved = failureOut(s, s.Failure), savedOut(s)
	return out
}

func savedOut(s sandbox.Sandbox) api.Saved {
	out := api.Saved{UnsavedSince: moment(s.UnsavedSince), SaveError: failureOut(s, s.SaveFailure)}
	if r := s.Restored; r.Version != "" {
		out.Restored = &api.RestoredVersion{Version: r.Version, SavedAt: r.SavedAt, At: r.At}
	}
	if l := s.Lost; !l.At.IsZero() {
		out.Lost = &api.LostChanges{Since: l.Since, At: l.At}
	}
	return out
}

func failureOut(s sandbox.Sandbox, f *sandbox.Failure) *api.SandboxError {
	if f == nil {
		return nil
	}
	return &api.SandboxError{Code: f.Code, Message: withoutEnv(s.Spec.Env)(f.Message), At: f.At, Attempts: f.Attempts}
}

func transitionOut(t sandbox.Transition) api.Transition {
	event := cmp.Or(string(t.Event), "want")
	return api.Transition{
		Seq: t.Seq, At: t.At, Event: event, From: string(t.From), To: string(t.To), Want: string(t.Want),
		Reason: t.Reason, Actor: t.Actor, Generation: t.Generation, Incarnation: t.Incarnation, Instance: string(t.Instance),
	}
}

// moment is a time that may not have been.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
