package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	// and those that are Unwanted.
	Unpurged(ctx context.Context, age time.Duration, after string, limit int) ([]sandbox.Sandbox, error)
	// Unwanted records that the versions of a sandbox that ended are to go.
	Unwanted(ctx context.Context, id string) error
	// Purged records that they are gone.
	Purged(ctx context.Context, id string) error
	// Saved lists sandboxes that are not deleted and have a version.
	Saved(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error)
	// Beside lists others of the tenant that may have versions in the same place.
	Beside(ctx context.Context, s sandbox.Sandbox, after string, limit int) ([]sandbox.Sandbox, error)
}

// purgeKey is an object that says: once this sandbox has ended, nothing of it is to be kept.
const purgeKey = "purge"

// purgeAskFor bounds the question whether versions go with their sandbox.
const purgeAskFor = 2 * time.Second

// purgeBatch is how many objects are deleted at a time.
const purgeBatch = 500

// MarkPurge records that the versions of a sandbox go with it. Whoever ends the sandbox does it, also
// after a crash.
func (k *Keeper) MarkPurge(ctx context.Context, s sandbox.Sandbox) error {
	plan := k.Plan(s)
	if err := k.alone(ctx, s, plan); err != nil {
		return err
	}
	if _, err := k.Store.Put(ctx, plan.Prefix+purgeKey, bytes.NewReader(nil), 0, blob.PutOptions{}); err != nil {
		return err
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(k.purging(s), nil, 0o600)
}

// purging is a file that says on this machine what the object purgeKey says in the store.
func (k *Keeper) purging(s sandbox.Sandbox) string { return filepath.Join(k.Dir, s.ID+".purge") }

// End lets go of what is kept for a sandbox that ended: it is the engine's finalizer. Versions stay,
// unless the sandbox was deleted and they were to go with it.
func (k *Keeper) End(ctx context.Context, s sandbox.Sandbox) error {
	if err := k.Forget(s); err != nil {
		return err
	}
	if s.SkipSave {
		if err := k.drop(ctx, s); err != nil {
			return err
		}
	}
	if !s.Deleted() {
		return nil
	}
	mark := k.Plan(s).Prefix + purgeKey
	o, err := k.askPurge(ctx, s, mark)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("see whether versions go, too: %w", err)
	}
	_ = o.Body.Close()
	if err := k.drop(ctx, s); err != nil {
		return err
	}
	err = k.Purge(ctx, s)
	if sandbox.CodeOf(err) == api.CodeConflict { // somebody else has them by now
		k.log().WarnContext(ctx, "versions stay though they were to go with their sandbox", "error", err)
		err = k.Store.Delete(ctx, mark)
	}
	if err == nil {
		_ = os.Remove(k.purging(s))
	}
	return err
}

// askPurge reads the mark. A store that does not answer holds up no end: unless this machine knows of the
// mark, there is none, and if another machine made one the versions go when deleted_retention is over.
func (k *Keeper) askPurge(ctx context.Context, s sandbox.Sandbox, mark string) (*blob.Object, error) {
	if _, err := os.Stat(k.purging(s)); err == nil {
		return k.Store.Get(ctx, mark, blob.GetOptions{})
	}
	if g, ok := k.Store.(*Gate); ok && g.Closed() != nil {
		return nil, blob.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, purgeAskFor)
	defer cancel()
	o, err := k.Store.Get(ctx, mark, blob.GetOptions{})
	if Unavailable(err) {
		k.log().WarnContext(ctx, "the object store does not answer; versions stay until deleted_retention is over", "error", err)
		err = blob.ErrNotFound
	}
	return o, err
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
