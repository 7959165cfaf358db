package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// Want sets the sandbox's Want, makes the sandbox due at once and counts as a use. It never blocks the lease holder.
// The holder sees the new value when it plans again.
func (s Scope) Want(ctx context.Context, id string, w sandbox.Want, reason, actor string) (sandbox.Sandbox, error) {
	return s.explainWant(ctx, id)(s.want(ctx, id, w, false, reason, actor))
}

// Terminate sets WantGone, with or without a last save. The next use of the sandbox revives it.
func (s Scope) Terminate(ctx context.Context, id string, skipSave bool, reason, actor string) (sandbox.Sandbox, error) {
	return s.explainWant(ctx, id)(s.want(ctx, id, sandbox.WantGone, skipSave, reason, actor))
}

// explainWant returns a function that converts the error of an update of Want. If no row matched, the error says why.
func (s Scope) explainWant(ctx context.Context, id string) func(sandbox.Sandbox, error) (sandbox.Sandbox, error) {
	const op = "set desired state"
	return func(sb sandbox.Sandbox, err error) (sandbox.Sandbox, error) {
		if errors.Is(err, sql.ErrNoRows) {
			return s.explainNoRow(ctx, op, id)
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

// WantIfIdle sets Want on behalf of a timer. It changes nothing and returns done = false if the sandbox was
// used, got another Want or has a hold since seen was read. It does not count as a use.
func (s Scope) WantIfIdle(ctx context.Context, seen sandbox.Sandbox, w sandbox.Want, reason, actor string) (sb sandbox.Sandbox, done bool, err error) {
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

// Delete makes the sandbox a tombstone and makes it due, so that the engine ends its instance, after a last save
// unless skipSave is set. Its quota is released at once; its environment, which may hold secrets, is removed when
// it is terminated. Deleting it again changes nothing, except that skipSave cancels a pending last save.
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
		return s.ByIDOrDeleted(ctx, id)
	}
	return sb, s.db.fail("delete sandbox", err)
}

// touchEvery is the resolution of the last use. Touch writes nothing if the recorded use is more recent than that.
const touchEvery = time.Second

// Touch records a use.
func (s Scope) Touch(ctx context.Context, id string) error {
	return s.db.fail("record use", s.db.execRelaxed(ctx, `
		update sandboxes set active_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null and active_at <= {now-$3}`,
		s.tenant, id, touchEvery.Microseconds()))
}

// explainNoRow returns the reason why a write matched no row.
func (s Scope) explainNoRow(ctx context.Context, op, id string) (sandbox.Sandbox, error) {
	sb, err := s.ByID(ctx, id)
	if err == nil {
		// The row was created after the write; the caller may retry.
		err = stale(op, "sandbox "+id)
	}
	return sb, err
}
