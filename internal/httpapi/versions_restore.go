package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/keeper"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/workspace"
)

type restoreVersion struct {
	ByRef
	Force bool `query:"force" doc:"The same as in the body"`
	Body  *api.RestoreVersion
}

func (a *Handler) restoreVersion(ctx context.Context, in *restoreVersion) (*made[api.Restored], error) {
	want := api.RestoreVersion{}
	if in.Body != nil {
		want = *in.Body
	}
	from, repo, err := a.kept(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	v, _, err := repo.Version(ctx, want.Version)
	if err != nil {
		return nil, keeper.Told("find version", a.unkept(ctx, from, repo, err))
	}
	if want.Into != "" {
		return a.restoreInto(ctx, from, v.ID, want.Into)
	}
	h, s, err := a.open(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.clear(ctx, s, want.Force || in.Force, "asked to restore a version in its sandbox"); err != nil {
		return nil, err
	}
	if !want.Force && !in.Force {
		if err := a.unheld(ctx, s); err != nil {
			return nil, err
		}
	}
	if s.Instance == "" { // what it has comes back with its next life, and is what is saved first
		if s, err = h.Sandbox(ctx); err != nil {
			return nil, err
		}
	}
	return a.bring(ctx, h, from, v.ID, http.StatusOK)
}

// unkept says why a version is not there, if there is none at all.
func (a *Handler) unkept(ctx context.Context, s sandbox.Sandbox, repo *workspace.Repo, err error) error {
	if sandbox.CodeOf(err) != api.CodeUnknownVersion {
		return err
	}
	if none, failed := repo.Empty(ctx); failed != nil || !none {
		return err
	}
	if !s.Deleted() {
		e := sandbox.Errorf("find version", api.CodeUnknownVersion, "nothing of the workspace of sandbox %s is saved yet", s.ID)
		e.Hint = "Sync the sandbox to save a first version; its end does so by itself."
		return e
	}
	e := sandbox.Errorf("find version", api.CodeUnknownVersion, "no version of sandbox %s is left: it was deleted at %s", s.ID, s.DeletedAt.UTC().Format(time.RFC3339))
	e.Hint = "Versions of a deleted sandbox are kept for as long as the server's deleted_retention says, or until they are purged."
	return e
}

// unheld refuses while somebody works in the sandbox: their files would change under their hands.
func (a *Handler) unheld(ctx context.Context, s sandbox.Sandbox) error {
	holds, err := a.Store.Holds(ctx, s.ID)
	if err != nil || len(holds) == 0 {
		return err
	}
	e := sandbox.Errorf("restore version", api.CodeConflict, "somebody works in sandbox %s (%s)", s.ID, holds[0].Kind)
	e.Hint = "Wait until it is over, ask with force, or restore into a new sandbox."
	return e
}

// restoreInto makes a new sandbox like the one that the version is of, and brings the version there. An
// attempt that was cut short is taken up by the same request: the sandbox that it made has the id that
// the request chose.
func (a *Handler) restoreInto(ctx context.Context, from sandbox.Sandbox, version, name string) (*made[api.Restored], error) {
	hideEnv(ctx, from.Spec.Env)
	r, err := request(ctx, api.CreateSandbox{
		Name: name, Template: from.Spec.Template, Driver: from.Spec.Driver, Profile: from.Spec.Profile,
		Env: from.Spec.Env, Metadata: from.Spec.Metadata,
	})
	if err != nil {
		return nil, err
	}
	if err := a.apart(from, sandbox.Sandbox{ID: r.NewID, Owner: r.Owner, Spec: r.Spec}); err != nil {
		return nil, err
	}
	s, err := a.in(ctx).ByName(ctx, name)
	if err == nil && s.ID != r.NewID {
		return nil, taken(name)
	}
	s, created, err := a.Engine.Ensure(ctx, r)
	if err != nil {
		return nil, err
	}
	if !created && s.ID != r.NewID {
		return nil, taken(name)
	}
	who, _ := auth.PrincipalFrom(ctx)
	out, err := a.bring(ctx, a.Open(s, who.Actor()), from, version, http.StatusCreated)
	if err != nil {
		return nil, keeper.Told("restore version", fmt.Errorf("sandbox %s was made, and is without the version: %w", name, err))
	}
	return out, nil
}

func taken(name string) error {
	e := sandbox.Errorf("restore version", api.CodeNameTaken, "there is a sandbox %s already, and a version is only brought into a new one", name)
	e.Hint = "Choose another name, or restore the version in place."
	return e
}

// apart refuses a new sandbox that would have the same workspace: bringing a version there would change
// that of everybody.
func (a *Handler) apart(from, to sandbox.Sandbox) error {
	if a.Open == nil || a.Keeper.Plan(from).Prefix == a.Keeper.Plan(to).Prefix {
		e := sandbox.Errorf("restore version", api.CodeUnsupported, "all sandboxes of the template %s have one workspace, a new one included", from.Spec.Template)
		e.Hint = "Restore the version into the sandbox itself."
		return e
	}
	return nil
}

// bring has the version brought into the sandbox of the handle.
func (a *Handler) bring(ctx context.Context, h Handle, from sandbox.Sandbox, version string, status int) (*made[api.Restored], error) {
	var res *workspace.Result
	s, err := h.Saving(ctx, "restore version", func(ctx context.Context, s sandbox.Sandbox) (mark sandbox.SyncMark, err error) {
		mark, res, err = a.Keeper.Bring(ctx, s, from, version)
		return mark, err
	})
	if err != nil {
		return nil, keeper.Told("restore version", err)
	}
	return &made[api.Restored]{
		Status: status, Location: sandboxesPath + "/" + s.ID,
		Body: api.Restored{Synced: syncedOut(s, res), Sandbox: sandboxOut(s), From: version},
	}, nil
}

// purge sees to it that a sandbox's versions go with it. Done: it was deleted before, and they are gone.
func (a *Handler) purge(ctx context.Context, ref string) (done bool, err error) {
	s, err := a.recordOf(ctx, ref)
	if err != nil || a.Keeper == nil {
		return false, err
	}
	if s.Deleted() && s.Settled() {
		return true, keeper.Told("purge versions", a.Keeper.PurgeEnded(ctx, s))
	}
	return false, keeper.Told("purge versions", a.Keeper.MarkPurge(ctx, s))
}
