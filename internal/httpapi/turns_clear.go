package httpapi

import (
	"context"

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Forcing is the parameter of whatever would end a turn that runs.
type Forcing struct {
	Force bool `query:"force" doc:"Cancel a turn that runs in it, wait until it has finished, and go on; without, it is refused while one runs"`
}

// clear makes sure that no turn runs in a sandbox that is about to be ended, or refuses that.
func (a *Handler) clear(ctx context.Context, s sandbox.Sandbox, force bool, reason string) error {
	if a.Turns == nil {
		return nil
	}
	return a.Turns.Clear(ctx, store.TenantID(s.Owner.Tenant), s.ID, force, reason)
}

// clearProject does so for a project's sandbox.
func (a *Handler) clearProject(ctx context.Context, id string, force bool, reason string) error {
	s, err := a.inProjects(ctx).Get(ctx, id)
	if err != nil {
		return err
	}
	return a.clear(ctx, s, force, reason)
}

// clearToDelete ends the turns of a sandbox that is to be deleted. One that does not end in time holds
// nothing up: it was asked to, and finds its sandbox gone.
func (a *Handler) clearToDelete(ctx context.Context, s sandbox.Sandbox) error {
	brief, cancel := context.WithTimeout(ctx, a.DeleteWait/2)
	defer cancel()
	err := a.clear(brief, s, true, "its sandbox is deleted")
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		exchangeOf(ctx).log.WarnContext(ctx, "a turn has not ended and its sandbox is deleted", "sandbox_id", s.ID, "error", err)
		return nil
	}
	return err
}
