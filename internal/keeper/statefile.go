package keeper

import (
	"context"

	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/workspace"
)

// writeState writes the state file of a workspace. It is for people and tools: a failure fails nothing.
func (k *Keeper) writeState(ctx context.Context, t workspace.Tree, text []byte) {
	if err := workspace.WriteState(t, text); err != nil {
		k.log().WarnContext(ctx, "write the state file of a workspace", "error", err)
		return
	}
	k.log().InfoContext(ctx, "state file written", "path", guest.Workspace+"/"+workspace.StateFile, "size", len(text))
}

// ensureState writes the state file of a workspace that has none, though nothing had to be saved: an empty workspace
// has one that lists nothing, and one that was deleted comes back.
func (k *Keeper) ensureState(ctx context.Context, t workspace.Tree, m *workspace.Manifest) {
	if there, err := workspace.HasState(t); err == nil && !there {
		k.writeState(ctx, t, m.Encode())
	}
}
