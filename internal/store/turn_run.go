package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// turnFence admits the writes of a turn's holder only: $1 is the turn's id, $2 the lease's epoch.
const turnFence = `turns.id = $1 and turns.epoch = $2 and finished_at is null`

// TakeTurn asks for the lease of a turn, and makes its epoch the turn's: from then on nobody else writes
// what its holder writes. A turn that somebody runs, or that has finished, is not taken.
// Neither is one whose sandbox is on another machine than host, if that runs.
func (db *DB) TakeTurn(ctx context.Context, id, holder, host string) (l Lease, t Turn, ok bool, err error) {
	ask := Lease{Kind: LeaseTurn, ID: id, Holder: holder}
	err = db.atomically(ctx, func(tx *txn) error {
		l, err = first(ctx, tx, scanLease(ask), `
			insert into leases (kind, id, holder, epoch, until)
			select cast($1 as text), turns.id, cast($3 as text), turns.epoch + 1, {now+$4} from turns
			where turns.id = $2 and turns.finished_at is null and not `+elsewhere("$5", "$6")+`
			on conflict (kind, id) do update
				set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
				where `+leaseFree+`
			returning epoch, until, holder`, ask.Kind, ask.ID, ask.Holder, db.ttl.Microseconds(), host, HostAlive.Microseconds())
		if err != nil {
			return err
		}
		t, err = first(ctx, tx, scanTurn, `update turns set epoch = $2 where id = $1 and finished_at is null returning `+turnColumns, id, l.Epoch)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Lease{}, Turn{}, false, nil
	}
	return l, t, err == nil, db.fail("take turn", err)
}

// UnheldTurns are up to limit turns of all tenants that somebody should run and nobody does: those with a
// place, and those that wait and were cancelled. Turns of sandboxes on another machine than host are left to
// that, if it runs. The oldest come first.
func (db *DB) UnheldTurns(ctx context.Context, host string, limit int) ([]Turn, error) {
	turns, err := all(ctx, db.read, scanTurn, `
		select `+listedColumns+` from turns left join leases on leases.kind = 'turn' and leases.id = turns.id
		where finished_at is null and (slot is not null or cancel_at is not null)
			and (leases.id is null or leases.holder = '' or leases.until <= {now}) and not `+elsewhere("$2", "$3")+`
		order by turns.created_at, turns.id limit $1`, clampLimit(limit), host, HostAlive.Microseconds())
	return turns, db.scanned("claim turns", err)
}

// WaitingSandboxes are up to limit sandboxes in which turns wait for a place.
func (db *DB) WaitingSandboxes(ctx context.Context, limit int) ([]Turn, error) {
	turns, err := all(ctx, db.read, scanTurn, `
		select `+listedColumns+` from turns where finished_at is null and slot is null and cancel_at is null
			and not exists (select 1 from turns other where other.sandbox = turns.sandbox and other.finished_at is null and other.slot is null
				and other.cancel_at is null and (other.created_at, other.id) < (turns.created_at, turns.id))
		order by created_at, id limit $1`, clampLimit(limit))
	return turns, db.scanned("list waiting turns", err)
}

// PlaceTurn gives a free place of a sandbox to the turn that has waited longest and whose conversation has
// none that runs. It says which, if any.
func (db *DB) PlaceTurn(ctx context.Context, sandbox string, places int64) (t Turn, ok bool, err error) {
	err = db.atomically(ctx, func(tx *txn) error {
		slot, err := freeSlot(ctx, tx, sandbox, places)
		if err != nil || slot < 0 {
			return err
		}
		t, err = first(ctx, tx, scanTurn, `
			update turns set slot = $2, status = 'running' where slot is null and id = (
				select w.id from turns w where w.sandbox = $1 and w.finished_at is null and w.slot is null and w.cancel_at is null
					and not exists (select 1 from turns r where r.conversation = w.conversation and r.slot is not null)
				order by w.created_at, w.id limit 1)
			returning `+turnColumns, sandbox, slot)
		ok = err == nil
		return err
	})
	if errors.Is(err, sql.ErrNoRows) || err != nil && db.dialect.duplicate(err) { // none waits, or somebody was faster
		return Turn{}, false, nil
	}
	return t, ok, db.fail("place turn", err)
}

// fenced makes one change of a turn's row.
func (db *DB) fenced(ctx context.Context, r runner, op string, l Lease, set string, args ...any) (Turn, error) {
	return db.changed(ctx, r, op, l, set, turnFence, args...)
}

func (db *DB) changed(ctx context.Context, r runner, op string, l Lease, set, where string, args ...any) (Turn, error) {
	t, err := first(ctx, r, scanTurn, `update turns set `+set+` where `+where+` returning `+turnColumns, append([]any{l.ID, l.Epoch}, args...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return t, stale(op, "turn "+l.ID)
	}
	return t, db.fail(op, err)
}

// fencedAt is fenced for a holder that believes the log to end at $3.
func (db *DB) fencedAt(ctx context.Context, r runner, op string, l Lease, seq int64, set string, args ...any) (Turn, error) {
	return db.changed(ctx, r, op, l, set, turnFence+` and `+logEnds("turns.id", "$3"), append([]any{seq}, args...)...)
}

// BeginAttempt records, before the agent is started, under which session and which attempt it is. What was
// read of an earlier attempt's output, the events up to seq, says nothing of this one's.
func (db *DB) BeginAttempt(ctx context.Context, l Lease, seq int64, session string, resume bool, state json.RawMessage) (Turn, error) {
	return db.fencedAt(ctx, db.write, "begin attempt", l, seq,
		`attempt = attempt + 1, seq = $3, session = $4, resume = $5, read_to = 0, state = $6, started_at = coalesce(started_at, {now})`,
		session, resume, string(state))
}

// Ending is what is recorded when the agent has ended.
type Ending struct {
	Append
	Outcome json.RawMessage
	Reply   []byte // the assistant's message, for the outbox
	// Session is the one that the conversation goes on with; empty: as before. Used says that it had this turn.
	Session string
	Used    bool
}

// EndTurn records how the agent's work ended, what it said last and the message that came of it: all or
// nothing.
func (db *DB) EndTurn(ctx context.Context, l Lease, e Ending) (t Turn, err error) {
	const op = "end turn"
	err = db.atomically(ctx, func(tx *txn) error {
		if t, err = db.fenced(ctx, tx, op, l, `status = 'finishing', outcome = $3`, string(e.Outcome)); err != nil {
			return err
		}
		if t, err = db.appendOne(ctx, tx, op, l, e.Append); err != nil {
			return err
		}
		used := 0
		if e.Used {
			used = 1
		}
		if e.Session != "" {
			if _, err := tx.exec(ctx, `update conversations set session = $2,
				session_turns = case when session = $2 then session_turns + $3 else $3 end where id = $1`, t.Conversation, e.Session, used); err != nil {
				return err
			}
		}
		return db.In(t.Tenant).enqueue(ctx, tx, Message{ID: t.Reply, Kind: OutboxMessage, Ref: t.Conversation, Payload: e.Reply})
	})
	return t, db.fail(op, err)
}

// MarkTurn records what of a turn's finish is done, so that it is not done again, and the save that is owed to it.
func (db *DB) MarkTurn(ctx context.Context, l Lease, done, warnings []string, owed *Save) (t Turn, err error) {
	const op = "record finish"
	err = db.atomically(ctx, func(tx *txn) error {
		if t, err = db.fenced(ctx, tx, op, l, `done = $3, warnings = $4, saving = $5`, listArg(done), listArg(warnings), owed != nil); err != nil || owed == nil {
			return err
		}
		return addSave(ctx, tx, *owed)
	})
	return t, db.fail(op, err)
}

// FinishTurn appends the turn's last event, keeps what is worth keeping of its outcome, notes it in the sandbox's metadata and ends it: its place is free.
func (db *DB) FinishTurn(ctx context.Context, l Lease, status string, outcome json.RawMessage, last Append, note func(metadata map[string]string)) (t Turn, err error) {
	const op = "finish turn"
	err = db.atomically(ctx, func(tx *txn) error {
		if t, err = db.appendOne(ctx, tx, op, l, last); err != nil {
			return err
		}
		if note != nil {
			if err := noteSandbox(ctx, tx, t.Sandbox, note); err != nil {
				return err
			}
		}
		t, err = db.fenced(ctx, tx, op, l, `status = $3, outcome = $4, slot = null, prompt = '', state = '', finished_at = {now}`, status, string(outcome))
		return err
	})
	return t, db.fail(op, err)
}

// ForgetTurns removes the logs of turns that finished so long ago, and returns of how many.
func (db *DB) ForgetTurns(ctx context.Context, age time.Duration, limit int) (int64, error) {
	n, err := db.write.exec(ctx, `delete from turn_log where turn in (
		select id from turns where finished_at is not null and finished_at <= {now-$1}
			and exists (select 1 from turn_log where turn_log.turn = turns.id) order by finished_at limit $2)`, age.Microseconds(), clampLimit(limit))
	return n, db.fail("forget events", err)
}
