package sandboxes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
	"github.com/berthdev/berth/internal/workspacesync"
)

type restoreVersion struct {
	access.ByRef
	Force bool `query:"force" doc:"The same as in the body"`
	Body  *api.RestoreVersion
}

func (a *handlers) restoreVersion(ctx context.Context, in *restoreVersion) (*rest.Created[api.Restored], error) {
	want := api.RestoreVersion{}
	if in.Body != nil {
		want = *in.Body
	}
	from, repo, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	v, _, err := repo.Version(ctx, want.Version)
	if err != nil {
		return nil, workspacesync.WrapError("find version", a.explainMissing(ctx, from, repo, err))
	}
	if want.Into != "" {
		return a.restoreInto(ctx, from, v.ID, api.CreateSandbox{Name: want.Into})
	}
	h, s, err := a.Handle(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.ClearTurns(ctx, s, want.Force || in.Force, "asked to restore a version in its sandbox"); err != nil {
		return nil, err
	}
	if !want.Force && !in.Force {
		if err := a.checkUnused(ctx, s); err != nil {
			return nil, err
		}
	}
	if s.Instance == "" { // start it first, with its newest version
		if s, err = h.Sandbox(ctx); err != nil {
			return nil, err
		}
	}
	if err := replaceLost(ctx, h); err != nil {
		return nil, err
	}
	return a.restoreTo(ctx, h, from, v.ID, http.StatusOK)
}

// explainMissing replaces the error for an unknown version if the sandbox has no versions at all.
func (a *handlers) explainMissing(ctx context.Context, s sandbox.Sandbox, repo *workspace.Repo, err error) error {
	if fault.CodeOf(err) != api.CodeUnknownVersion {
		return err
	}
	if none, failed := repo.Empty(ctx); failed != nil || !none {
		return err
	}
	if !s.Deleted() {
		e := fault.Errorf("find version", api.CodeUnknownVersion, "nothing of the workspace of sandbox %s is saved yet", s.ID)
		e.Hint = "Sync the sandbox to save a first version; its end does so by itself."
		return e
	}
	e := fault.Errorf("find version", api.CodeUnknownVersion, "no version of sandbox %s is left: it was deleted at %s", s.ID, s.DeletedAt.UTC().Format(time.RFC3339))
	e.Hint = "Versions of a deleted sandbox are kept for as long as the server's deleted_retention says, or until they are purged."
	return e
}

// checkUnused returns an error while the sandbox is in use: a restore would change the files under its users.
func (a *handlers) checkUnused(ctx context.Context, s sandbox.Sandbox) error {
	holds, err := a.Store.Holds().List(ctx, s.ID)
	if err != nil || len(holds) == 0 {
		return err
	}
	e := fault.Errorf("restore version", api.CodeConflict, "sandbox %s is in use (%s)", s.ID, holds[0].Kind)
	e.Hint = "Wait until it is over, ask with force, or restore into a new sandbox."
	return e
}

// restoreInto creates a sandbox with the specification of from and restores the version into it. A repeated request
// continues an interrupted attempt, because both use the id of the same Idempotency-Key for the sandbox.
func (a *handlers) restoreInto(ctx context.Context, from sandbox.Sandbox, version string, want api.CreateSandbox) (*rest.Created[api.Restored], error) {
	if from.EnvProblem != nil && len(want.Env) == 0 {
		return nil, from.EnvProblem
	}
	spec := from.Spec
	want.Template, want.Driver, want.Profile = cmp.Or(want.Template, spec.Template), cmp.Or(want.Driver, spec.Driver), cmp.Or(want.Profile, spec.Profile)
	if len(want.Env) == 0 {
		want.Env = spec.Env
	}
	if len(want.Metadata) == 0 {
		want.Metadata = spec.Metadata
	}
	access.HideEnv(ctx, want.Env)
	r, err := request(ctx, want)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(want.Name, r.NewID)
	if err := a.checkSeparate(from, sandbox.Sandbox{ID: r.NewID, Owner: r.Owner, Spec: r.Spec}); err != nil {
		return nil, err
	}
	if want.Name != "" {
		s, err := a.In(ctx).ByName(ctx, want.Name)
		if err == nil && s.ID != r.NewID {
			return nil, taken(name)
		}
	}
	s, created, err := a.Engine.Ensure(ctx, r)
	if err != nil {
		return nil, err
	}
	if !created && s.ID != r.NewID {
		return nil, taken(name)
	}
	who, _ := auth.PrincipalFrom(ctx)
	out, err := a.restoreTo(ctx, a.Engine.HandleOn(s, who.Actor()), from, version, http.StatusCreated)
	if err != nil {
		return nil, workspacesync.WrapError("restore version", fmt.Errorf("sandbox %s was made, and is without the version: %w", name, err))
	}
	return out, nil
}

// createFrom creates a sandbox from the newest version of another sandbox, which may be deleted.
func (a *handlers) createFrom(ctx context.Context, want api.CreateSandbox) (*rest.Created[api.Sandbox], error) {
	if want.ID != "" {
		return nil, exchange.InvalidField("body.id", "cannot be chosen together with from: the new sandbox gets a new id")
	}
	from, repo, err := a.readable(ctx, want.From)
	if err != nil {
		return nil, err
	}
	v, _, err := repo.Version(ctx, "")
	if err != nil {
		return nil, workspacesync.WrapError("find version", a.explainMissing(ctx, from, repo, err))
	}
	out, err := a.restoreInto(ctx, from, v.ID, want)
	if err != nil {
		return nil, err
	}
	return &rest.Created[api.Sandbox]{Status: out.Status, Location: out.Location, Body: out.Body.Sandbox}, nil
}

func taken(name string) error {
	e := fault.Errorf("restore version", api.CodeNameTaken, "there is a sandbox %s already, and a version is only brought into a new one", name)
	e.Hint = "Choose another name, or restore the version in place."
	return e
}

// checkSeparate refuses a new sandbox that would share its workspace with from: restoring a version there would
// change the files of all sandboxes that share it.
func (a *handlers) checkSeparate(from, to sandbox.Sandbox) error {
	if a.Syncer.Prefix(from) == a.Syncer.Prefix(to) {
		e := fault.Errorf("restore version", api.CodeUnsupported, "all sandboxes of the template %s have one workspace, a new one included", from.Spec.Template)
		e.Hint = "Restore the version into the sandbox itself."
		return e
	}
	return nil
}

// restoreTo restores the version into the sandbox of the handle.
func (a *handlers) restoreTo(ctx context.Context, h *engine.Handle, from sandbox.Sandbox, version string, status int) (*rest.Created[api.Restored], error) {
	var res *workspace.Result
	s, err := h.Saving(ctx, "restore version", func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		mark, res, err = a.Syncer.RestoreVersion(ctx, s, from, version)
		return mark, err
	})
	if err != nil {
		return nil, workspacesync.WrapError("restore version", err)
	}
	return &rest.Created[api.Restored]{
		Status: status, Location: exchange.SandboxesPath + "/" + sandbox.PublicID(s.ID),
		Body: api.Restored{Synced: workspacesync.Show(s, res), Sandbox: engine.Show(s), From: version},
	}, nil
}

// purge marks a sandbox's versions to be removed with the sandbox. If the sandbox is gone already, purge removes the
// versions now and returns done.
func (a *handlers) purge(ctx context.Context, ref string) (done bool, err error) {
	s, err := a.Record(ctx, ref)
	if err != nil || a.Syncer == nil {
		return false, err
	}
	if s.Deleted() && s.Settled() {
		return true, workspacesync.WrapError("purge versions", a.Syncer.PurgeEnded(ctx, s))
	}
	return false, workspacesync.WrapError("purge versions", a.Syncer.MarkPurge(ctx, s))
}
