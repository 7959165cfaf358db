package workspacesync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/blob"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Records reads and writes the rows of sandboxes whose versions are removed. store.Versions implements it.
type Records interface {
	// ListPurgeable lists terminated sandboxes whose versions may have to be removed: sandboxes deleted longer than
	// age ago, sandboxes marked for purge, and sandboxes for which this is unknown.
	ListPurgeable(ctx context.Context, age time.Duration, after string, limit int) ([]sandbox.Sandbox, error)
	// SetPurge records whether the versions of a sandbox are removed when the sandbox is deleted.
	SetPurge(ctx context.Context, id string, to sandbox.Purge) error
	// MarkForPurge records that the versions of a terminated sandbox must be removed.
	MarkForPurge(ctx context.Context, id string) error
	// MarkPurged records that the versions of a sandbox are removed.
	MarkPurged(ctx context.Context, id string) error
	// ListSaved lists sandboxes that are not deleted and have a version.
	ListSaved(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error)
	// ListSharingPrefix lists the other sandboxes of the tenant that may have versions under the same prefix.
	ListSharingPrefix(ctx context.Context, sb sandbox.Sandbox, after string, limit int) ([]sandbox.Sandbox, error)
}

// purgeKey is the key of an object that servers of earlier releases stored next to the versions. It means that the
// versions must be removed when the sandbox is terminated.
const purgeKey = "purge"

const (
	purgeBatch = 500              // number of objects deleted in one call
	purgeFor   = 10 * time.Second // limit of a purge that a terminate waits for; Run removes the rest
)

// MarkPurge records that the versions of a sandbox are removed when the sandbox is deleted. The server that
// terminates the sandbox removes them. A crash only delays the removal.
func (s *Syncer) MarkPurge(ctx context.Context, sb sandbox.Sandbox) error {
	if err := s.checkNotShared(ctx, sb, s.o.Plan(sb)); err != nil {
		return err
	}
	return s.o.Records.SetPurge(ctx, sb.ID, sandbox.PurgeYes)
}

// End removes the local data of a terminated sandbox. It is a finalizer of the engine. The versions stay, unless
// the sandbox was deleted with a purge. Without a purge, End does not use the object store.
func (s *Syncer) End(ctx context.Context, sb sandbox.Sandbox) error {
	if err := s.Forget(sb); err != nil {
		return err
	}
	purge := sb.Deleted() && sb.Purge == sandbox.PurgeYes
	if purge || sb.SkipSave {
		if err := s.captures.dropCaptures(ctx, sb); err != nil {
			return err
		}
	}
	if !purge {
		return nil
	}
	return s.purgeAtEnd(ctx, sb)
}

// purgeAtEnd removes the versions of a sandbox that is being terminated. A store that does not answer does not
// block the termination: the row keeps its mark, and Run removes the versions later.
func (s *Syncer) purgeAtEnd(ctx context.Context, sb sandbox.Sandbox) error {
	brief, cancel := context.WithTimeout(ctx, purgeFor)
	defer cancel()
	err := s.checkGate()
	if err == nil {
		err = s.Purge(brief, sb)
	}
	switch {
	case fault.CodeOf(err) == api.CodeConflict:
		s.log().WarnContext(ctx, "versions stay though they were to go with their sandbox: another sandbox has them", "error", err)
	case Unavailable(err) && ctx.Err() == nil:
		s.log().WarnContext(ctx, "the object store does not answer; versions are removed once it does", "error", err)
		s.runSoon()
		return nil
	case err != nil:
		return err
	}
	return s.o.Records.SetPurge(ctx, sb.ID, sandbox.PurgeNo)
}

// checkGate returns the reason why the store refuses writes, or nil.
func (s *Syncer) checkGate() error {
	if g, ok := s.o.Store.(*Gate); ok {
		return g.Closed()
	}
	return nil
}

// readOldPurgeMark looks for a purgeKey object in the store, and records in the row whether it exists.
func (s *Syncer) readOldPurgeMark(ctx context.Context, sb sandbox.Sandbox) (purge bool, err error) {
	o, err := s.o.Store.Get(ctx, s.o.Plan(sb).Prefix+purgeKey, blob.GetOptions{})
	if errors.Is(err, blob.ErrNotFound) {
		return false, s.o.Records.SetPurge(ctx, sb.ID, sandbox.PurgeNo)
	}
	if err != nil {
		return false, fmt.Errorf("see whether versions were to go with their sandbox: %w", err)
	}
	_ = o.Body.Close()
	return true, s.o.Records.SetPurge(ctx, sb.ID, sandbox.PurgeYes)
}

// PurgeEnded removes the versions of a terminated sandbox. Run repeats it after a failure.
func (s *Syncer) PurgeEnded(ctx context.Context, sb sandbox.Sandbox) error {
	if err := s.checkNotShared(ctx, sb, s.o.Plan(sb)); err != nil {
		return err
	}
	if err := s.o.Records.MarkForPurge(ctx, sb.ID); err != nil {
		return err
	}
	if err := s.Purge(ctx, sb); err != nil {
		return fmt.Errorf("the versions that are left are removed later: %w", err)
	}
	return s.o.Records.MarkPurged(ctx, sb.ID)
}

// Purge removes all versions of a deleted sandbox. It can be interrupted and repeated. It removes HEAD first, so
// that no partial version is visible. It removes the purgeKey object last, so that an incomplete purge is repeated.
func (s *Syncer) Purge(ctx context.Context, sb sandbox.Sandbox) error {
	plan := s.o.Plan(sb)
	if !sb.Deleted() {
		return fault.Errorf("purge versions", api.CodeConflict, "sandbox %s is not deleted", sb.ID)
	}
	if err := s.checkNotShared(ctx, sb, plan); err != nil {
		return err
	}
	if err := s.o.Store.Delete(ctx, plan.Prefix+"HEAD"); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	n, batch := 0, make([]string, 0, purgeBatch)
	remove := func() error {
		// Another sandbox may have begun to use the prefix since the last check.
		if err := s.checkNotShared(ctx, sb, plan); err != nil || len(batch) == 0 {
			return err
		}
		if err := s.o.Store.Delete(ctx, batch...); err != nil {
			return fmt.Errorf("purge versions: %w", err)
		}
		n, batch = n+len(batch), batch[:0]
		return nil
	}
	for e, err := range s.o.Store.List(ctx, plan.Prefix, blob.ListOptions{}) {
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
	if err := s.o.Store.Delete(ctx, plan.Prefix+purgeKey); err != nil {
		return fmt.Errorf("purge versions: %w", err)
	}
	s.log().InfoContext(ctx, "versions purged", "sandbox_id", sb.ID, "prefix", plan.Prefix, "objects", n)
	return nil
}

// rowPage is the number of rows that are read at a time.
const rowPage = 500

// checkNotShared returns CodeConflict if another sandbox may have versions under the prefix or below it, for
// example a newer sandbox of the same owner.
func (s *Syncer) checkNotShared(ctx context.Context, sb sandbox.Sandbox, plan Plan) error {
	if plan.Shared || plan.Prefix == "" {
		return fault.Errorf("purge versions", api.CodeConflict, "the workspace of sandbox %s is that of other sandboxes, too; prune its versions instead", sb.ID)
	}
	if hasOwnPrefix(plan, sb) || s.o.Records == nil {
		return nil // the prefix contains the sandbox's id
	}
	for after := ""; ; {
		others, err := s.o.Records.ListSharingPrefix(ctx, sb, after, rowPage)
		if err != nil || len(others) == 0 {
			return err
		}
		for _, other := range others {
			if strings.HasPrefix(s.o.Plan(other).Prefix, plan.Prefix) {
				return fault.Errorf("purge versions", api.CodeConflict, "the versions of sandbox %s are those of sandbox %s, too", sb.ID, other.ID)
			}
			after = other.ID
		}
	}
}

// hasOwnPrefix reports whether no other sandbox can have the prefix, because it contains the sandbox's id.
func hasOwnPrefix(plan Plan, sb sandbox.Sandbox) bool {
	return strings.Contains(plan.Prefix, "/"+sb.ID+"/")
}
