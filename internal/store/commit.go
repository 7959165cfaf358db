package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// fence is the condition for writes of the sandbox's lease holder: $1 is the sandbox's id, $2 the lease's epoch.
const fence = `sandboxes.id = $1 and generation = $2`

// Due is the time of the engine's next look at a sandbox. It is written only if Want and the last use are unchanged
// since the holder planned. Otherwise a later request has already made the sandbox due.
type Due struct {
	At     time.Time // zero: not before the next request
	Want   sandbox.Want
	UsedAt time.Time // the last use that the holder planned with; zero: any
}

// Commit writes a change of the lease holder, its history entry and the next due time in one transaction. It
// returns ErrStale if the lease is lost, ErrOvertaken if Want differs from Change.If, and an error if the state
// does not allow the event; nothing is written then. If the database stops answering during Commit, the change may
// or may not be stored: read the record again.
func (db *DB) Commit(ctx context.Context, l Lease, c sandbox.Change, due Due) (sandbox.Sandbox, error) {
	const op = "commit change"
	was, now, err := db.readFenced(ctx, l)
	if err == nil {
		was, err = db.commit(ctx, l, was, now, c, due)
		if errors.Is(err, sql.ErrNoRows) {
			err = db.whyNotCommitted(ctx, l, c)
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return sandbox.Sandbox{}, stale(op, "sandbox "+l.ID)
	case errors.Is(err, sandbox.ErrOvertaken):
		return sandbox.Sandbox{}, err
	case err != nil:
		return sandbox.Sandbox{}, db.fail(op, err)
	}
	return was, nil
}

func (db *DB) commit(ctx context.Context, l Lease, was sandbox.Sandbox, now time.Time, c sandbox.Change, due Due) (sandbox.Sandbox, error) {
	if c.If != "" && was.Want != c.If {
		return was, sandbox.ErrOvertaken
	}
	to, err := sandbox.Next(was.State, c.Event)
	if err != nil {
		return was, err
	}
	return db.writeFenced(ctx, l, was.State, was.Apply(c, to, now), c, due)
}

// whyNotCommitted returns the reason why a write matched no row: ErrOvertaken for another Want, sql.ErrNoRows for a
// lost lease.
func (db *DB) whyNotCommitted(ctx context.Context, l Lease, c sandbox.Change) error {
	is, _, err := db.readFenced(ctx, l)
	if err == nil && c.If != "" && is.Want != c.If {
		return sandbox.ErrOvertaken
	}
	if err == nil {
		err = sql.ErrNoRows
	}
	return err
}

// readFenced reads the record and the database's clock. It returns sql.ErrNoRows when the lease is lost. Only the
// holder changes the columns that Commit writes, so the row is not locked.
func (db *DB) readFenced(ctx context.Context, l Lease) (sb sandbox.Sandbox, now time.Time, err error) {
	scan := func(row scanner) (sandbox.Sandbox, error) {
		return db.scanSandbox(prefixScanner{row, []any{instant{&now}}})
	}
	sb, err = first(ctx, db.read, scan, `select {now}, `+sandboxColumns+` from sandboxes where `+fence, l.ID, l.Epoch)
	return sb, now, err
}

func (db *DB) writeFenced(ctx context.Context, l Lease, from sandbox.State, sb sandbox.Sandbox, c sandbox.Change, due Due) (sandbox.Sandbox, error) {
	return db.dialect.apply(ctx, db, change{
		text: `update sandboxes set state = $3, instance = $4, incarnation = $5, synced_version = $6, synced_incarnation = $7,
				env = case when cast($3 as text) = 'terminated' and deleted_at is not null then '{}' else env end,
				failure = $8, started_at = $9, probed_at = $10, destroyed_at = $11, changes = changes + 1,
				recoveries = $16, recovered_since = $17, finalizers = $18, error_message = $19, host = $21,
				restored_version = $22, restored_saved_at = $23, restored_at = $24, lost_since = $25, lost_at = $26, paused_at = $28, resumed_at = $29,
				unsaved_since = case when $27 then null else unsaved_since end, changed_at = case when $27 then null else changed_at end,
				save_failure = case when $27 then null else save_failure end,
				due_at = case when want = $12 and active_at = coalesce($15, active_at) then $13 else due_at end
			where ` + fence + ` and state = cast($14 as text) and want = coalesce($20, want)`,
		args: []any{
			l.ID, l.Epoch, sb.State, sb.Instance, sb.Incarnation, sb.Synced.Version, sb.Synced.Incarnation, failureArg(sb.Failure),
			at(sb.StartedAt), at(sb.ProbedAt), at(sb.DestroyedAt), due.Want, at(due.At), from, at(due.UsedAt),
			sb.Recovered.Count, at(sb.Recovered.Since), listArg(sb.Finalizers), messageOf(sb.Failure), orNull(c.If), sb.Host,
			sb.Restored.Version, at(sb.Restored.SavedAt), at(sb.Restored.At), at(sb.Lost.Since), at(sb.Lost.At), c.EndsFiles(), at(sb.PausedAt), at(sb.ResumedAt),
		},
		event: c.Event, from: from, reason: c.Reason, actor: c.Actor,
	})
}

// RecordFailure records why a step failed and when it is retried. It changes no state and adds no history entry,
// because it may happen often. The next Commit clears the failure. For probed see SetDue.
func (db *DB) RecordFailure(ctx context.Context, l Lease, f sandbox.Failure, due Due, probed time.Time) error {
	const op = "record failure"
	n, err := db.write.exec(ctx, `
		update sandboxes set failure = $3, error_message = $7, probed_at = coalesce($8, probed_at), due_at = case when want = $4 and active_at = coalesce($6, active_at) then $5 else due_at end
		where `+fence, l.ID, l.Epoch, failureArg(&f), due.Want, at(due.At), at(due.UsedAt), messageOf(&f), at(probed))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return db.fail(op, err)
}

// SetDue sets the time of the next look at the sandbox and nothing else. A non-zero probed is the time of the last
// probe of its instance.
func (db *DB) SetDue(ctx context.Context, l Lease, due Due, probed time.Time) error {
	const op = "set due time"
	n, err := db.write.exec(ctx, `
		update sandboxes set probed_at = coalesce($5, probed_at),
			due_at = case when want = $3 and active_at = coalesce($6, active_at) then $4 else due_at end
		where `+fence, l.ID, l.Epoch, due.Want, at(due.At), at(probed), at(due.UsedAt))
	if err == nil && n == 0 {
		return stale(op, "sandbox "+l.ID)
	}
	return db.fail(op, err)
}
