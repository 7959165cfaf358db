package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Changed records a use that may have changed files of the sandbox. If all was saved before, the
// sandbox is due in saveAfter at the latest. Without saved, the workspace is one that is never saved, and
// only the time of the change is recorded.
func (s Scope) Changed(ctx context.Context, id string, saved bool, saveAfter time.Duration) error {
	_, err := s.db.write.exec(ctx, `
		update sandboxes set active_at = {now}, changed_at = {now},
			unsaved_since = case when $3 then coalesce(unsaved_since, {now}) else unsaved_since end,
			due_at = case when $3 and unsaved_since is null and (due_at is null or due_at > {now+$4}) then {now+$4} else due_at end
		where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id, saved, saveAfter.Microseconds())
	return s.db.fail("record a change of files", err)
}

// Synced records which version of its workspace a sandbox is now the same as. A save names the time at
// which it began to read files, by the database's clock: changes from then on are not in the version, and
// stay unsaved. A zero began is no save and leaves them as they are.
func (db *DB) Synced(ctx context.Context, l Lease, mark sandbox.SyncMark, began time.Time) (sandbox.Sandbox, error) {
	const op = "record version"
	sb, err := all(ctx, db.write, scanSandbox, `
		update sandboxes set synced_version = $3, synced_incarnation = $4,
			save_failure = case when $6 then null else save_failure end,
			unsaved_since = case when not $6 or unsaved_since >= $5 then unsaved_since when changed_at >= $5 then $5 end
		where `+fence+` returning `+sandboxColumns, l.ID, l.Epoch, mark.Version, mark.Incarnation, at(began), !began.IsZero())
	if err == nil && len(sb) == 0 {
		return sandbox.Sandbox{}, stale(op, "sandbox "+l.ID)
	}
	if err != nil {
		return sandbox.Sandbox{}, db.fail(op, err)
	}
	return sb[0], nil
}

// StayUnsaved records that files may have changed since a save began though no use was recorded:
// processes went on running in the sandbox.
func (db *DB) StayUnsaved(ctx context.Context, l Lease, began time.Time) error {
	const op = "record unsaved changes"
	n, err := db.write.exec(ctx, `update sandboxes set unsaved_since = coalesce(unsaved_since, $3) where `+fence, l.ID, l.Epoch, at(began))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return db.fail(op, err)
}

// SaveFailed records why a save failed. It leaves everything else as it is.
func (db *DB) SaveFailed(ctx context.Context, l Lease, f sandbox.Failure) error {
	const op = "record a failed save"
	n, err := db.write.exec(ctx, `update sandboxes set save_failure = $3 where `+fence, l.ID, l.Epoch, failureArg(&f))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return db.fail(op, err)
}

// Unsaved returns how many sandboxes of all tenants have changes that are not saved, and since when the
// oldest of them has.
func (db *DB) Unsaved(ctx context.Context) (n int64, oldest time.Time, err error) {
	_, err = first(ctx, db.read, func(row scanner) (any, error) { return nil, row.Scan(&n, instant{&oldest}) },
		`select count(*), min(unsaved_since) from sandboxes where unsaved_since is not null and deleted_at is null`)
	return n, oldest, db.fail("count unsaved sandboxes", err)
}
