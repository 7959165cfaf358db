package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// addSandboxes adds the routes of sandboxes themselves.
func (a *handlers) addSandboxes(op access.OperationFunc) {
	create := op(http.MethodPost, "", "create-sandbox", api.ScopeWrite, "Get or create a sandbox and start it",
		api.CodeInvalidID, api.CodeInvalidName, api.CodeNotFound, api.CodeDeleted, api.CodeDeleting, api.CodeSpecMismatch, api.CodeNameTaken,
		api.CodeUnknownTemplate, api.CodeUnknownDriver, api.CodeUnknownProfile, api.CodeQuotaExceeded,
		api.CodeCreateFailed, api.CodeDriverRefused, api.CodeDriverUnreachable, api.CodeUnhealthy, api.CodeBusy)
	create.Description = "Returns when the sandbox is running: 201 for a new one, 200 if one with that id or name exists. The request's fields must match it. " +
		"If a sandbox with the same name is being deleted, the request waits for it, or returns 409 deleting after half of the request timeout, at most 30 s."
	create.Status, create.Also = http.StatusCreated, map[int]string{http.StatusOK: "The sandbox already existed"}
	rest.Serve(a.Spec, create, a.createSandbox)

	rest.Serve(a.Spec, op(http.MethodGet, "", "list-sandboxes", api.ScopeRead, "List sandboxes, newest first", api.CodeInvalidCursor), a.listSandboxes)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}", "get-sandbox", api.ScopeRead, "Get a sandbox",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted), a.getSandbox)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/history", "list-sandbox-history", api.ScopeRead, "List a sandbox's history, newest first",
		api.CodeInvalidID, api.CodeNotFound, api.CodeInvalidCursor), a.sandboxHistory)

	remove := op(http.MethodDelete, "/{id}", "delete-sandbox", api.ScopeWrite, "Delete a sandbox",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted)
	remove.Description = "Returns 204 when the sandbox is gone, or 202 if that takes longer; the delete then continues in the background, and GET of the sandbox shows its progress. A repeated delete waits for the same one. The name can be used again when the sandbox is gone."
	remove.Status, remove.Also = http.StatusAccepted, map[int]string{http.StatusNoContent: "The sandbox is gone"}
	rest.Serve(a.Spec, remove, a.deleteSandbox)

	stats := op(http.MethodGet, "/{id}/stats", "stats-sandbox", api.ScopeRead, "Get what a running sandbox uses",
		api.CodeInvalidID, api.CodeNotFound, api.CodeNotRunning, api.CodeUnsupported)
	stats.Description = "The request neither starts the sandbox nor counts as use of it."
	rest.Serve(a.Spec, stats, a.sandboxStats)

	a.addExplain(op)
}

type createSandbox struct {
	access.MassDelete
	Body *api.CreateSandbox
}

func (a *handlers) createSandbox(ctx context.Context, in *createSandbox) (*rest.Created[api.Sandbox], error) {
	want := api.CreateSandbox{}
	if in.Body != nil {
		want = *in.Body
	}
	access.HideEnv(ctx, want.Env)
	if want.From != "" {
		return a.createFrom(ctx, want)
	}
	r, err := request(ctx, want)
	if err != nil {
		return nil, err
	}
	err = a.MergeBeforeStart(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) {
		return a.In(ctx).ByOwner(ctx, r.Owner.Kind, r.Owner.ID)
	})
	if err != nil {
		return nil, err
	}
	s, created, err := a.Engine.Ensure(ctx, r)
	if err != nil {
		return nil, err
	}
	access.SetNotice(ctx, s.ActiveBefore, s)
	out := &rest.Created[api.Sandbox]{Status: http.StatusOK, Location: exchange.SandboxesPath + "/" + sandbox.PublicID(s.ID), Body: engine.Show(s)}
	// The id is new for this request: only the request, or an earlier attempt whose answer was lost, can have used
	// it.
	if created || s.ID == r.NewID {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// request converts the body to a request to the engine. The owner is the sandbox itself, by its name or else by its
// id.
func request(ctx context.Context, want api.CreateSandbox) (engine.Request, error) {
	who, _ := auth.PrincipalFrom(ctx)
	r := engine.Request{
		Name: want.Name, NewID: exchange.EffectID(ctx), Actor: who.Actor(), Account: who.AccountID, Within: who.Within(),
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
	return r, access.CheckSpec(r.Spec)
}

type listSandboxes struct {
	State     string `query:"state" enum:"pending,creating,running,unhealthy,stopping,stopped,starting,archived,terminating,terminated,error" doc:"Only sandboxes in this state"`
	OwnerKind string `query:"owner_kind" enum:"conversation,project,thread,sandbox" doc:"Only sandboxes with this kind of owner"`
	Template  string `query:"template" maxLength:"63" doc:"Only sandboxes of this template"`
	Driver    string `query:"driver" maxLength:"63" doc:"Only sandboxes of this driver"`
	Live      bool   `query:"live" doc:"Also ask the drivers of this server's machine: fills in frozen and oom_kills of running sandboxes"`
	Deleted   bool   `query:"deleted" doc:"Only deleted sandboxes, instead of those that exist"`
	rest.Paging
}

func (a *handlers) listSandboxes(ctx context.Context, in *listSandboxes) (*rest.Reply[api.List[api.Sandbox]], error) {
	p, err := in.StorePage("sandboxes")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Sandboxes(ctx, store.Filter{
		State: sandbox.State(in.State), OwnerKind: sandbox.OwnerKind(in.OwnerKind), Template: in.Template, Driver: in.Driver, Deleted: in.Deleted,
	}, p)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("sandboxes", rows, next, func(s sandbox.Sandbox) api.Sandbox {
		out := engine.Show(s)
		if in.Live {
			a.fillLive(ctx, s, &out)
		}
		return out
	}), nil
}

// fillLive adds measurements of a running sandbox. It adds nothing if this server cannot measure the sandbox.
func (a *handlers) fillLive(ctx context.Context, s sandbox.Sandbox, out *api.Sandbox) {
	if s.State != sandbox.Running {
		return
	}
	if u, err := a.Engine.Usage(ctx, s); err == nil {
		out.Frozen, out.OOMKills = u.Frozen, u.OOMKills
	}
}

func (a *handlers) sandboxStats(ctx context.Context, in *access.ByRef) (*rest.Reply[api.SandboxStats], error) {
	s, err := a.Find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	u, err := a.Engine.Usage(ctx, s)
	switch {
	case err == nil && s.State != sandbox.Running:
		return nil, fault.Errorf("measure sandbox", api.CodeNotRunning, "sandbox %s is %s", s.ID, s.State)
	case errors.Is(err, driver.ErrNotRunning), errors.Is(err, driver.ErrNotFound):
		return nil, fault.Errorf("measure sandbox", api.CodeNotRunning, "the instance of sandbox %s does not run: %w", s.ID, err)
	case errors.Is(err, driver.ErrUnsupported):
		return nil, fault.Errorf("measure sandbox", api.CodeUnsupported, "the driver %s cannot measure sandboxes", s.Spec.Driver)
	case err != nil:
		return nil, fmt.Errorf("measure sandbox %s: %w", s.ID, err)
	}
	return &rest.Reply[api.SandboxStats]{Body: api.SandboxStats{
		At: time.Now().UTC(), MemoryBytes: u.MemoryBytes, MemoryLimitBytes: u.MemoryLimit, CPUSeconds: u.CPU.Seconds(), Processes: u.Processes, OOMKills: u.OOMKills,
	}}, nil
}

func (a *handlers) getSandbox(ctx context.Context, in *access.ByRef) (*rest.Reply[api.Sandbox], error) {
	s, err := a.Find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := engine.Show(s)
	out.Frozen = a.Engine.HandleOn(s, "").Frozen(ctx)
	if u, err := a.Engine.Usage(ctx, s); err == nil {
		out.OOMKills = u.OOMKills
	}
	if a.Traffic != nil {
		out.Traffic = a.Traffic(s.ID)
	}
	open, err := a.In(ctx).Turns().ListOpen(ctx, "", s.ID)
	if err == nil && len(open) > 0 {
		out.TurnID = open[0].ID
	}
	return &rest.Reply[api.Sandbox]{Body: out}, err
}

type listHistory struct {
	access.ByRef
	rest.Paging
}

func (a *handlers) sandboxHistory(ctx context.Context, in *listHistory) (*rest.Reply[api.List[api.Transition]], error) {
	s, err := a.Record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before, err := rest.ParseCursor("history", in.Cursor)
	if err != nil || before.ID != "" && before.ID != sandbox.PublicID(s.ID) {
		return nil, rest.BadCursor()
	}
	entries, next, err := a.In(ctx).History(ctx, s.ID, in.Limit, before.At)
	if err != nil {
		return nil, err
	}
	out := rest.ListOf("history", entries, store.Position{}, transitionOut)
	hide := engine.HideEnv(s.Spec.Env)
	for i := range out.Body.Items {
		out.Body.Items[i].Reason = hide(out.Body.Items[i].Reason)
	}
	if next > 0 {
		out.Body.NextCursor = rest.Cursor{List: "history", At: next, ID: s.ID}.String()
	}
	return out, nil
}

type deleteSandbox struct {
	access.ByRef
	access.Ending
	Purge bool `query:"purge" doc:"Also delete its versions at once, without a last save; works for a deleted sandbox too"`
}

func (a *handlers) deleteSandbox(ctx context.Context, in *deleteSandbox) (*rest.Deleted[api.Sandbox], error) {
	if in.Purge {
		done, err := a.purge(ctx, in.ID)
		if done || err != nil {
			return &rest.Deleted[api.Sandbox]{Status: http.StatusNoContent}, err
		}
		in.Sync = false
	}
	s, err := a.Find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.ClearForDelete(ctx, s); err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	s, err = a.Engine.Delete(wait, who.Tenant, s.ID, who.Actor(), !in.Sync)
	return access.ShowDeleted(s, err, engine.Show)
}

func transitionOut(t sandbox.Transition) api.Transition {
	event := cmp.Or(string(t.Event), "want")
	return api.Transition{
		Seq: t.Seq, At: t.At, Event: event, From: string(t.From), To: string(t.To), Want: string(t.Want),
		Reason: sandbox.PublicIDs(t.Reason), Actor: t.Actor, Generation: t.Generation, Incarnation: t.Incarnation, Instance: sandbox.PublicIDs(string(t.Instance)),
	}
}
