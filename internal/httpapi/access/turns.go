package access

import (
	"context"

	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Forcing is the parameter of routes that would end a running turn.
type Forcing struct {
	Force bool `query:"force" doc:"Cancel a running turn and wait for its end first; otherwise the request is refused while a turn runs"`
}

// ClearTurns makes sure that no turn runs in a sandbox. With force it cancels running turns and waits for their end;
// without force it returns an error if a turn runs.
func (a *Sandboxes) ClearTurns(ctx context.Context, s sandbox.Sandbox, force bool, reason string) error {
	if a.Chat == nil {
		return nil
	}
	return a.Chat.Clear(ctx, store.TenantID(s.Owner.Tenant), s.ID, force, reason)
}

// ClearForDelete cancels the turns of a sandbox that is to be deleted. A turn that does not end in time does not stop
// the delete: it ends when its sandbox is gone.
func (a *Sandboxes) ClearForDelete(ctx context.Context, s sandbox.Sandbox) error {
	brief, cancel := context.WithTimeout(ctx, a.DeleteWait/2)
	defer cancel()
	err := a.ClearTurns(brief, s, true, "its sandbox is deleted")
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		exchange.Of(ctx).Log.WarnContext(ctx, "a turn has not ended and its sandbox is deleted", "sandbox_id", s.ID, "error", err)
		return nil
	}
	return err
}
