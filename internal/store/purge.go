package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Values of synced_incarnation for sandboxes that are terminated for good. No lease protects such rows, because
// nothing else changes them.
const (
	versionsUnwanted = -1 // the versions are to be removed
	versionsGone     = -2 // the versions are removed
)

// endedSandbox is the condition for a deleted and terminated sandbox. At most its versions still exist.
const endedSandbox = `deleted_at is not null and state = 'terminated'`

// Versions records which saved versions of sandboxes are kept, and which are to be removed.
type Versions struct{ db *DB }

// Versions returns the records of versions.
func (db *DB) Versions() Versions { return Versions{db} }

// ListPurgeable lists tombstones of all tenants whose versions may have to be removed: those deleted longer than age
// ago (unless age is zero), those marked for purge, and those with PurgeUnknown. They are ordered by id and start
// after the given one.
func (v Versions) ListPurgeable(ctx context.Context, age time.Duration, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, v.db.read, v.db.scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where `+endedSandbox+` and synced_incarnation > -2 and sandboxes.id > $2
			and (synced_incarnation = $3 or purge <> 'no' or synced_incarnation > $3 and cast($1 as bigint) > 0 and deleted_at <= {now-$1})
		order by sandboxes.id limit $4`, age.Microseconds(), after, versionsUnwanted, clampLimit(limit))
	return found, v.db.recordScan("list versions to remove", err)
}

// SetPurge records whether the versions of a sandbox are removed with it.
func (v Versions) SetPurge(ctx context.Context, id string, to sandbox.Purge) error {
	_, err := v.db.write.exec(ctx, `update sandboxes set purge = $2 where id = $1`, id, to)
	return v.db.fail("record what becomes of versions", err)
}

// MarkForPurge records that the versions of a terminated sandbox are to be removed regardless of their age.
func (v Versions) MarkForPurge(ctx context.Context, id string) error {
	return v.setRemoved(ctx, id, versionsUnwanted)
}

// MarkPurged records that all versions of a terminated sandbox are removed.
func (v Versions) MarkPurged(ctx context.Context, id string) error {
	return v.setRemoved(ctx, id, versionsGone)
}

// setRemoved records that versions are unwanted or gone. It never changes versionsGone.
func (v Versions) setRemoved(ctx context.Context, id string, to int) error {
	_, err := v.db.write.exec(ctx, `
		update sandboxes set synced_incarnation = $2, synced_version = case when $2 = $3 then '' else synced_version end
		where id = $1 and `+endedSandbox+` and synced_incarnation > $2`, id, to, versionsGone)
	return v.db.fail("record what becomes of versions", err)
}

// WithoutPrefix lists sandboxes of all tenants, including deleted ones, that have no recorded prefix. They are ordered
// by id and start after the given one.
func (v Versions) WithoutPrefix(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, v.db.read, v.db.scanSandbox, `select `+sandboxColumns+` from sandboxes
		where prefix = '' and sandboxes.id > $1 order by sandboxes.id limit $2`, after, clampLimit(limit))
	return found, v.db.fail("list sandboxes without a prefix", err)
}

// SetPrefix records the prefix of a sandbox's versions unless it has one.
func (v Versions) SetPrefix(ctx context.Context, id, prefix string) error {
	_, err := v.db.write.exec(ctx, `update sandboxes set prefix = $2 where id = $1 and prefix = ''`, id, prefix)
	return v.db.fail("record a prefix", err)
}

// ListSaved lists the sandboxes of all tenants that are not deleted and have a version, ordered by id, starting
// after the given one.
func (v Versions) ListSaved(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, v.db.read, v.db.scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where sandboxes.id > $1 and deleted_at is null and synced_version <> ''
		order by sandboxes.id limit $2`, after, clampLimit(limit))
	return found, v.db.recordScan("list workspaces with versions", err)
}

// ListSharingPrefix lists the other sandboxes of a tenant that may store versions under the same prefix: live
// sandboxes, and sandboxes that were deleted later and are not purged yet. They are ordered by id and start after the
// given one.
func (v Versions) ListSharingPrefix(ctx context.Context, sb sandbox.Sandbox, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, v.db.read, v.db.scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where tenant = $1 and sandboxes.id <> $2 and sandboxes.id > $3 and (deleted_at is null
			or synced_incarnation > $5 and (deleted_at > $4 or deleted_at = $4 and sandboxes.id > $2))
		order by sandboxes.id limit $6`, sb.Owner.Tenant, sb.ID, after, at(sb.DeletedAt), versionsGone, clampLimit(limit))
	return found, v.db.fail("list the sandboxes beside one", err)
}
