package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// purgeKey is an object that says: once this sandbox has ended, nothing of it is to be kept.
const purgeKey = "purge"

// purgeBatch is how many objects are deleted at a time.
const purgeBatch = 500

// MarkPurge records that the versions of a sandbox go with it. Whoever ends the sandbox does it, also
// after a crash.
func (k *Keeper) MarkPurge(ctx context.Context, s sandbox.Sandbox) error {
	plan := k.Plan(s)
	if plan.Shared {
		return sandbox.Errorf("purge versions", api.CodeConflict, "the workspace of sandbox %s is that of other sandboxes, too; prune its versions instead", s.ID)
	}
	_, err := k.Store.Put(ctx, plan.Prefix+purgeKey, bytes.NewReader(nil), 0, blob.PutOptions{})
	return err
}

// End lets go of what is kept for a sandbox that ended: it is the engine's finalizer. Versions stay,
// unless the sandbox was deleted and they were to go with it.
func (k *Keeper) End(ctx context.Context, s sandbox.Sandbox) error {
	if err := k.Forget(s); err != nil {
		return err
	}
	if !s.Deleted() {
		return nil
	}
	o, err := k.Store.Get(ctx, k.Plan(s).Prefix+purgeKey, blob.GetOptions{})
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("see whether versions go, too: %w", err)
	}
	_ = o.Body.Close()
	return k.Purge(ctx, s)
}

// Purge removes every version of a deleted sandbox. It may be cut short and repeated: HEAD goes first, so
// that no half of a version is ever seen, and the mark goes last.
func (k *Keeper) Purge(ctx context.Context, s sandbox.Sandbox) error {
	plan := k.Plan(s)
	if plan.Shared || plan.Prefix == "" || !s.Deleted() {
		return sandbox.Errorf("purge versions", api.CodeConflict, "the versions of sandbox %s are not its own, or it is not deleted", s.ID)
	}
	if err := k.Store.Delete(ctx, plan.Prefix+"HEAD"); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	var batch []string
	for e, err := range k.Store.List(ctx, plan.Prefix, blob.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("list what to purge: %w", err)
		}
		if e.Key == plan.Prefix+purgeKey {
			continue
		}
		if batch = append(batch, e.Key); len(batch) == purgeBatch {
			if err := k.Store.Delete(ctx, batch...); err != nil {
				return fmt.Errorf("purge versions: %w", err)
			}
			batch = batch[:0]
		}
	}
	if err := k.Store.Delete(ctx, append(batch, plan.Prefix+purgeKey)...); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	k.log().InfoContext(ctx, "versions purged", "sandbox_id", s.ID, "prefix", plan.Prefix)
	return nil
}
