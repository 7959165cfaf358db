package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// RecordChange records a use that may have changed files of the sandbox. If everything was saved before, the
// sandbox becomes due in saveAfter at the latest. If saved is false the workspace is never saved, and only the
// time of the change is recorded.
func (s Scope) RecordChange(ctx context.Context, id string, saved bool, saveAfter time.Duration) error {
	_, err := s.db.write.exec(ctx, `
		update sandboxes set active_at = {now}, changed_at = {now},
			unsaved_since = case when $3 then coalesce(unsaved_since, {now}) else unsaved_since end,
			due_at = case when $3 and unsaved_since is null and (due_at is null or due_at > {now+$4}) then {now+$4} else due_at end
		where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id, saved, saveAfter.Microseconds())
	return s.db.fail("record a change of files", err)
}

// Syncs records the results of saves and syncs of workspaces.
type Syncs struct{ db *DB }

// Syncs returns the records of saves and syncs.
func (db *DB) Syncs() Syncs { return Syncs{db} }

// RecordSync records the version that a sandbox's workspace now equals. After a save, began is the database's time
// when the save started to read files: later changes are not in the version and stay unsaved. A zero began means that
// nothing was saved; unsaved changes stay recorded.
func (syncs Syncs) RecordSync(ctx context.Context, l Lease, mark sandbox.SyncMark, began time.Time) (sandbox.Sandbox, error) {
	const op = "record version"
	sb, err := all(ctx, syncs.db.write, syncs.db.scanSandbox, `
		update sandboxes set synced_version = $3, synced_incarnation = $4,
			save_failure = case when $6 then null else save_failure end,
			unsaved_since = case when not $6 or unsaved_since >= $5 then unsaved_since when changed_at >= $5 then $5 end
		where `+fence+` returning `+sandboxColumns, l.ID, l.Epoch, mark.Version, mark.Incarnation, at(began), !began.IsZero())
	if err == nil && len(sb) == 0 {
		return sandbox.Sandbox{}, stale(op, "sandbox "+l.ID)
	}
	if err != nil {
		return sandbox.Sandbox{}, syncs.db.fail(op, err)
	}
	return sb[0], nil
}

// RecordStillUnsaved records that files may have changed since began, the start of a save, although no use was
// recorded: processes kept running in the sandbox.
func (syncs Syncs) RecordStillUnsaved(ctx context.Context, l Lease, began time.Time) error {
	const op = "record unsaved changes"
	n, err := syncs.db.write.exec(ctx, `update sandboxes set unsaved_since = coalesce(unsaved_since, $3) where `+fence, l.ID, l.Epoch, at(began))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return syncs.db.fail(op, err)
}

// RecordSaveFailure records why a save failed and changes nothing else.
func (syncs Syncs) RecordSaveFailure(ctx context.Context, l Lease, f sandbox.Failure) error {
	const op = "record a failed save"
	n, err := syncs.db.write.exec(ctx, `update sandboxes set save_failure = $3 where `+fence, l.ID, l.Epoch, failureArg(&f))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return syncs.db.fail(op, err)
}

// CountUnsaved returns how many sandboxes of all tenants have unsaved changes, and the time of the oldest change.
func (syncs Syncs) CountUnsaved(ctx context.Context) (n int64, oldest time.Time, err error) {
	_, err = first(ctx, syncs.db.read, func(row scanner) (any, error) { return nil, row.Scan(&n, instant{&oldest}) },
		`select count(*), min(unsaved_since) from sandboxes where unsaved_since is not null and deleted_at is null`)
	return n, oldest, syncs.db.recordScan("count unsaved sandboxes", err)
}
