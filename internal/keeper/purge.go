package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/sandbox"
)

// Records are the sandboxes' records, as far as the end of their versions goes. The store of records is
// one.
type Records interface {
	// Unpurged lists sandboxes that have ended and whose versions are to go: those deleted that long ago,
	// those that are Unwanted, and those that have no Purge of no.
	Unpurged(ctx context.Context, age time.Duration, after string, limit int) ([]sandbox.Sandbox, error)
	// SetPurge records whether the versions of a sandbox go with it.
	SetPurge(ctx context.Context, id string, to sandbox.Purge) error
	// Unwanted records that the versions of a sandbox that ended are to go.
	Unwanted(ctx context.Context, id string) error
	// Purged records that they are gone.
	Purged(ctx context.Context, id string) error
	// Saved lists sandboxes that are not deleted and have a version.
	Saved(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error)
	// Beside lists others of the tenant that may have versions in the same place.
	Beside(ctx context.Context, s sandbox.Sandbox, after string, limit int) ([]sandbox.Sandbox, error)
}

// purgeKey is an object that servers of before wrote beside the versions: once the sandbox has ended, its versions go.
const purgeKey = "purge"

const (
	purgeBatch = 500              // how many objects are deleted at a time
	purgeFor   = 10 * time.Second // bounds the purge that an end waits for; the rest is left to Run
)

// MarkPurge records that the versions of a sandbox go with it. The server that ends the sandbox removes them, also
// after a crash.
func (k *Keeper) MarkPurge(ctx context.Context, s sandbox.Sandbox) error {
	if err := k.alone(ctx, s, k.Plan(s)); err != nil {
		return err
	}
	return k.Records.SetPurge(ctx, s.ID, sandbox.PurgeYes)
}

// End lets go of what is kept for a sandbox that ended: it is the engine's finalizer. Versions stay, unless the
// sandbox was deleted and they were to go with it. Without a purge the object store is not asked.
func (k *Keeper) End(ctx context.Context, s sandbox.Sandbox) error {
	if err := k.Forget(s); err != nil {
		return err
	}
	purge := s.Deleted() && s.Purge == sandbox.PurgeYes
	if purge || s.SkipSave {
		if err := k.drop(ctx, s); err != nil {
			return err
		}
	}
	if !purge {
		return nil
	}
	return k.purgeAtEnd(ctx, s)
}

// purgeAtEnd removes the versions of a sandbox that is about to have ended. A store that does not answer holds up no
// end: the record says that the versions are to go, and Run removes them.
func (k *Keeper) purgeAtEnd(ctx context.Context, s sandbox.Sandbox) error {
	brief, cancel := context.WithTimeout(ctx, purgeFor)
	defer cancel()
	err := k.closed()
	if err == nil {
		err = k.Purge(brief, s)
	}
	switch {
	case sandbox.CodeOf(err) == api.CodeConflict:
		k.log().WarnContext(ctx, "versions stay though they were to go with their sandbox: another sandbox has them", "error", err)
	case Unavailable(err) && ctx.Err() == nil:
		k.log().WarnContext(ctx, "the object store does not answer; versions are removed once it does", "error", err)
		k.soon()
		return nil
	case err != nil:
		return err
	}
	return k.Records.SetPurge(ctx, s.ID, sandbox.PurgeNo)
}

// closed says why nothing can be written to the store yet, nil if it can.
func (k *Keeper) closed() error {
	if g, ok := k.Store.(*Gate); ok {
		return g.Closed()
	}
	return nil
}

// markedBefore looks for the mark of a server that kept it in the store, and records what it finds.
func (k *Keeper) markedBefore(ctx context.Context, s sandbox.Sandbox) (purge bool, err error) {
	o, err := k.Store.Get(ctx, k.Plan(s).Prefix+purgeKey, blob.GetOptions{})
	if errors.Is(err, blob.ErrNotFound) {
		return false, k.Records.SetPurge(ctx, s.ID, sandbox.PurgeNo)
	}
	if err != nil {
		return false, fmt.Errorf("see whether versions were to go with their sandbox: %w", err)
	}
	_ = o.Body.Close()
	return true, k.Records.SetPurge(ctx, s.ID, sandbox.PurgeYes)
}

// PurgeEnded removes the versions of a sandbox that has ended. If it fails it is tried again by itself.
func (k *Keeper) PurgeEnded(ctx context.Context, s sandbox.Sandbox) error {
	if err := k.alone(ctx, s, k.Plan(s)); err != nil {
		return err
	}
	if err := k.Records.Unwanted(ctx, s.ID); err != nil {
		return err
	}
	if err := k.Purge(ctx, s); err != nil {
		return fmt.Errorf("the versions that are left are removed later: %w", err)
	}
	return k.Records.Purged(ctx, s.ID)
}

// Purge removes every version of a deleted sandbox. It may be cut short and repeated: HEAD goes first, so
// that no half of a version is ever seen, and the mark goes last, by itself: a store may refuse some
// deletes of many.
func (k *Keeper) Purge(ctx context.Context, s sandbox.Sandbox) error {
	plan := k.Plan(s)
	if !s.Deleted() {
		return sandbox.Errorf("purge versions", api.CodeConflict, "sandbox %s is not deleted", s.ID)
	}
	if err := k.alone(ctx, s, plan); err != nil {
		return err
	}
	if err := k.Store.Delete(ctx, plan.Prefix+"HEAD"); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	n, batch := 0, make([]string, 0, purgeBatch)
	remove := func() error {
		// Whoever wrote one of these since has had a record before, and is found by it.
		if err := k.alone(ctx, s, plan); err != nil || len(batch) == 0 {
			return err
		}
		if err := k.Store.Delete(ctx, batch...); err != nil {
			return fmt.Errorf("purge versions: %w", err)
		}
		n, batch = n+len(batch), batch[:0]
		return nil
	}
	for e, err := range k.Store.List(ctx, plan.Prefix, blob.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("list what to purge: %w", err)
		}
		if e.Key == plan.Prefix+purgeKey {
			continue
		}
		if batch = append(batch, e.Key); len(batch) == purgeBatch {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	if err := remove(); err != nil {
		return err
	}
	if err := k.Store.Delete(ctx, plan.Prefix+purgeKey); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	k.log().InfoContext(ctx, "versions purged", "sandbox_id", s.ID, "prefix", plan.Prefix, "objects", n)
	return nil
}

// besidePage is how many records are looked at at a time.
const besidePage = 500

// alone refuses where somebody else has versions in the same place, or below it: another sandbox of the
// same owner, for example.
func (k *Keeper) alone(ctx context.Context, s sandbox.Sandbox, plan Plan) error {
	if plan.Shared || plan.Prefix == "" {
		return sandbox.Errorf("purge versions", api.CodeConflict, "the workspace of sandbox %s is that of other sandboxes, too; prune its versions instead", s.ID)
	}
	if alone(plan, s) || k.Records == nil {
		return nil // nobody else can have it
	}
	for after := ""; ; {
		others, err := k.Records.Beside(ctx, s, after, besidePage)
		if err != nil || len(others) == 0 {
			return err
		}
		for _, other := range others {
			if strings.HasPrefix(k.Plan(other).Prefix, plan.Prefix) {
				return sandbox.Errorf("purge versions", api.CodeConflict, "the versions of sandbox %s are those of sandbox %s, too", s.ID, other.ID)
			}
			after = other.ID
		}
	}
}

// alone reports whether no other sandbox can have the prefix.
func alone(plan Plan, s sandbox.Sandbox) bool { return strings.Contains(plan.Prefix, "/"+s.ID+"/") }
