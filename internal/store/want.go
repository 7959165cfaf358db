package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Want sets what is wanted of a sandbox, makes it due at once and counts as use. It never disturbs a
// lease holder, which sees it when it plans again.
func (s Scope) Want(ctx context.Context, id string, w sandbox.Want, reason, actor string) (sandbox.Sandbox, error) {
	return s.wanted(ctx, id)(s.want(ctx, id, w, false, reason, actor))
}

// Terminate wants the sandbox gone, with or without a last save; its next use revives it.
func (s Scope) Terminate(ctx context.Context, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	return s.wanted(ctx, id)(s.want(ctx, id, sandbox.WantGone, skipSave, reason, actor))
}

// wanted explains a wish that found no row to change.
func (s Scope) wanted(ctx context.Context, id string) func(sandbox.Sandbox, error) (sandbox.Sandbox, error) {
	const op = "set what is wanted"
	return func(sb sandbox.Sandbox, err error) (sandbox.Sandbox, error) {
		if errors.Is(err, sql.ErrNoRows) {
			return s.whyNot(ctx, op, id)
		}
		return sb, s.db.fail(op, err)
	}
}

func (s Scope) want(ctx context.Context, id string, w sandbox.Want, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	return s.db.dialect.apply(ctx, s.db, change{
		text: `update sandboxes set want = $3, skip_save = $4, active_at = {now}, due_at = {now},
				changes = changes + case when want = $3 then 0 else 1 end
			where tenant = $1 and id = $2 and deleted_at is null`,
		args: []any{s.tenant, id, w, skipSave}, reason: reason, actor: actor,
	})
}

// Lapse sets what is wanted on behalf of a timer: only if, since seen was read, nobody used the
// sandbox, asked otherwise or took a hold. It is no use of the sandbox.
func (s Scope) Lapse(ctx context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (sb sandbox.Sandbox, done bool, err error) {
	sb, err = s.db.dialect.apply(ctx, s.db, change{
		text: `update sandboxes set want = $3, skip_save = false, due_at = {now}, changes = changes + case when want = $3 then 0 else 1 end
			where tenant = $1 and id = $2 and deleted_at is null and want = $4 and active_at = $5
				and not exists (select 1 from holds where holds.sandbox = sandboxes.id and holds.until > {now})`,
		args: []any{s.tenant, seen.ID, w, seen.Want, at(seen.ActiveAt)}, reason: reason, actor: actor,
	})
	if errors.Is(err, sql.ErrNoRows) {
		return sandbox.Sandbox{}, false, nil
	}
	return sb, err == nil, s.db.fail("set what a timer wants", err)
}

// Delete makes the sandbox a tombstone, once and for good, and makes it due so that what it has at
// its driver is ended, after a last save unless that is skipped. Its environment, which may hold
// secrets, goes with the last of it; its place in the tenant's quota is free at once. Deleting it again
// changes nothing, unless it skips a save that the first delete still waits for.
func (s Scope) Delete(ctx context.Context, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	sb, err := s.db.dialect.apply(ctx, s.db, change{
		text: `update sandboxes set want = $3, skip_save = $4, deleted_at = {now}, due_at = {now}, changes = changes + 1,
				purge = case when purge = '' then 'no' else purge end, env = case when state = 'terminated' then '{}' else env end
			where tenant = $1 and id = $2 and deleted_at is null`,
		args: []any{s.tenant, id, sandbox.WantGone, skipSave}, reason: reason, actor: actor,
		count: freed,
	})
	if errors.Is(err, sql.ErrNoRows) && skipSave {
		sb, err = s.db.dialect.apply(ctx, s.db, change{
			text: `update sandboxes set skip_save = $3, due_at = {now}, changes = changes + 1
				where tenant = $1 and id = $2 and deleted_at is not null and skip_save <> $3 and state not in ('terminating', 'terminated')`,
			args: []any{s.tenant, id, true}, reason: reason + " without a last save", actor: actor,
		})
	}
	if errors.Is(err, sql.ErrNoRows) {
		return s.Record(ctx, id)
	}
	return sb, s.db.fail("delete sandbox", err)
}

// touchEvery is how exact the time of last use is: a use within it of the last one writes nothing.
const touchEvery = time.Second

// Touch records use, to the second.
func (s Scope) Touch(ctx context.Context, id string) error {
	return s.db.fail("record use", s.db.note(ctx, `
		update sandboxes set active_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null and active_at <= {now-$3}`,
		s.tenant, id, touchEvery.Microseconds()))
}

// whyNot explains a write that found no row to change.
func (s Scope) whyNot(ctx context.Context, op, id string) (sandbox.Sandbox, error) {
	sb, err := s.ByID(ctx, id)
	if err == nil {
		// It came into being after the write looked; the caller may ask again.
		err = stale(op, "sandbox "+id)
	}
	return sb, err
}
