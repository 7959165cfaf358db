package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// What stands in the place of the incarnation that last saved its workspace once a sandbox has ended for
// good. Nobody works on such a record any more, so that no lease guards it.
const (
	versionsUnwanted = -1 // somebody asked for its versions to be gone
	versionsGone     = -2 // and they are
)

// ended is a tombstone of which nothing is left but its versions.
const ended = `deleted_at is not null and state = 'terminated'`

// Unpurged lists tombstones of every tenant whose versions are to go, or may be: those deleted that long ago, those
// of which it was asked for, and those with PurgeUnknown. They come in the order of their ids, from after on. An age
// of zero leaves the first out.
func (db *DB) Unpurged(ctx context.Context, age time.Duration, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where `+ended+` and synced_incarnation > -2 and sandboxes.id > $2
			and (synced_incarnation = $3 or purge <> 'no' or synced_incarnation > $3 and cast($1 as bigint) > 0 and deleted_at <= {now-$1})
		order by sandboxes.id limit $4`, age.Microseconds(), after, versionsUnwanted, clampLimit(limit))
	return found, db.fail("list versions to remove", err)
}

// SetPurge records whether the versions of a sandbox go with it.
func (db *DB) SetPurge(ctx context.Context, id string, to sandbox.Purge) error {
	_, err := db.write.exec(ctx, `update sandboxes set purge = $2 where id = $1`, id, to)
	return db.fail("record what becomes of versions", err)
}

// Unwanted records that the versions of a sandbox that ended for good are to go, however young they are.
func (db *DB) Unwanted(ctx context.Context, id string) error {
	return db.setVersions(ctx, id, versionsUnwanted)
}

// Purged records that nothing is left of the versions of a sandbox that ended for good.
func (db *DB) Purged(ctx context.Context, id string) error {
	return db.setVersions(ctx, id, versionsGone)
}

// setVersions never makes versions that are gone anything else.
func (db *DB) setVersions(ctx context.Context, id string, to int) error {
	_, err := db.write.exec(ctx, `
		update sandboxes set synced_incarnation = $2, synced_version = case when $2 = $3 then '' else synced_version end
		where id = $1 and `+ended+` and synced_incarnation > $2`, id, to, versionsGone)
	return db.fail("record what becomes of versions", err)
}

// WithoutPrefix lists sandboxes of every tenant, tombstones too, whose prefix is not recorded, in the order of
// their ids from after on.
func (db *DB) WithoutPrefix(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, scanSandbox, `select `+sandboxColumns+` from sandboxes
		where prefix = '' and sandboxes.id > $1 order by sandboxes.id limit $2`, after, clampLimit(limit))
	return found, db.fail("list sandboxes without a prefix", err)
}

// SetPrefix records where the versions of a sandbox are, unless that is recorded already.
func (db *DB) SetPrefix(ctx context.Context, id, prefix string) error {
	_, err := db.write.exec(ctx, `update sandboxes set prefix = $2 where id = $1 and prefix = ''`, id, prefix)
	return db.fail("record a prefix", err)
}

// Saved lists the sandboxes of every tenant that are not deleted and have a version, in the order of their ids, from
// after on.
func (db *DB) Saved(ctx context.Context, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where sandboxes.id > $1 and deleted_at is null and synced_version <> ''
		order by sandboxes.id limit $2`, after, clampLimit(limit))
	return found, db.fail("list workspaces with versions", err)
}

// Beside lists the other sandboxes of a tenant that may have versions where this one has its own: those
// that live, and those that were deleted later and are not purged yet. They come in the order of their
// ids, from after on.
func (db *DB) Beside(ctx context.Context, sb sandbox.Sandbox, after string, limit int) ([]sandbox.Sandbox, error) {
	found, err := all(ctx, db.read, scanSandbox, `
		select `+sandboxColumns+` from sandboxes
		where tenant = $1 and sandboxes.id <> $2 and sandboxes.id > $3 and (deleted_at is null
			or synced_incarnation > $5 and (deleted_at > $4 or deleted_at = $4 and sandboxes.id > $2))
		order by sandboxes.id limit $6`, sb.Owner.Tenant, sb.ID, after, at(sb.DeletedAt), versionsGone, clampLimit(limit))
	return found, db.fail("list the sandboxes beside one", err)
}
