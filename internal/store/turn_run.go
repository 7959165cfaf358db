package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// turnFence is the condition for writes of a turn's holder: $1 is the turn's id, $2 the lease's epoch.
const turnFence = `turns.id = $1 and turns.epoch = $2 and finished_at is null`

// TurnRuns is for the servers that run turns: it finds, takes, logs and ends them, in all tenants.
type TurnRuns struct{ db *DB }

// TurnRuns returns the turns of all tenants, for the server that runs them.
func (db *DB) TurnRuns() TurnRuns { return TurnRuns{db} }

// Take requests the lease of a turn and makes the lease's epoch the turn's, which fences earlier holders. A turn
// is not taken if it has a holder, has finished, or its sandbox is pinned to another live host.
func (runs TurnRuns) Take(ctx context.Context, id, holder, host string) (l Lease, t Turn, ok bool, err error) {
	ask := Lease{Kind: LeaseTurn, ID: id, Holder: holder}
	err = runs.db.inTx(ctx, func(tx *txn) error {
		l, err = first(ctx, tx, scanLease(ask), `
			insert into leases (kind, id, holder, epoch, until)
			select cast($1 as text), turns.id, cast($3 as text), turns.epoch + 1, {now+$4} from turns
			where turns.id = $2 and turns.finished_at is null and not `+otherHost("$5", "$6")+`
			on conflict (kind, id) do update
				set holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
				where `+leaseFree+`
			returning epoch, until, holder`, ask.Kind, ask.ID, ask.Holder, runs.db.ttl.Microseconds(), host, HostAlive.Microseconds())
		if err != nil {
			return err
		}
		t, err = first(ctx, tx, scanTurn, `update turns set epoch = $2 where id = $1 and finished_at is null returning `+turnColumns, id, l.Epoch)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Lease{}, Turn{}, false, nil
	}
	return l, t, err == nil, runs.db.fail("take turn", err)
}

// ListDue returns up to limit turns of all tenants that should run and have no lease holder, oldest first:
// admitted turns, and waiting turns that were cancelled. Turns of sandboxes pinned to another live host are left
// to that host.
func (runs TurnRuns) ListDue(ctx context.Context, host string, limit int) ([]Turn, error) {
	turns, err := all(ctx, runs.db.read, scanTurn, `
		select `+listedColumns+` from turns left join leases on leases.kind = 'turn' and leases.id = turns.id
		where finished_at is null and (slot is not null or cancel_at is not null)
			and (leases.id is null or leases.holder = '' or leases.until <= {now}) and not `+otherHost("$2", "$3")+`
		order by turns.created_at, turns.id limit $1`, clampLimit(limit), host, HostAlive.Microseconds())
	return turns, runs.db.recordScan("claim turns", err)
}

// WaitingSandboxes returns up to limit waiting turns: for each sandbox with waiting turns the oldest one.
func (runs TurnRuns) WaitingSandboxes(ctx context.Context, limit int) ([]Turn, error) {
	turns, err := all(ctx, runs.db.read, scanTurn, `
		select `+listedColumns+` from turns where finished_at is null and slot is null and cancel_at is null
			and not exists (select 1 from turns other where other.sandbox = turns.sandbox and other.finished_at is null and other.slot is null
				and other.cancel_at is null and (other.created_at, other.id) < (turns.created_at, turns.id))
		order by created_at, id limit $1`, clampLimit(limit))
	return turns, runs.db.recordScan("list waiting turns", err)
}

// Admit lets the longest waiting turn of a sandbox run if fewer than places turns run there and its
// conversation has no running turn. It returns that turn; ok is false if there is none.
func (runs TurnRuns) Admit(ctx context.Context, sandbox string, places int64) (t Turn, ok bool, err error) {
	err = runs.db.inTx(ctx, func(tx *txn) error {
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
	if errors.Is(err, sql.ErrNoRows) || err != nil && runs.db.dialect.duplicate(err) { // no turn waits, or another server was faster
		return Turn{}, false, nil
	}
	return t, ok, runs.db.fail("place turn", err)
}

// fenced updates a turn's row if the lease is still valid for it.
func (runs TurnRuns) fenced(ctx context.Context, r runner, op string, l Lease, set string, args ...any) (Turn, error) {
	return runs.changed(ctx, r, op, l, set, turnFence, args...)
}

func (runs TurnRuns) changed(ctx context.Context, r runner, op string, l Lease, set, where string, args ...any) (Turn, error) {
	t, err := first(ctx, r, scanTurn, `update turns set `+set+` where `+where+` returning `+turnColumns, append([]any{l.ID, l.Epoch}, args...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return t, stale(op, "turn "+l.ID)
	}
	return t, runs.db.fail(op, err)
}

// fencedAt is fenced with the additional condition that the log ends at $3.
func (runs TurnRuns) fencedAt(ctx context.Context, r runner, op string, l Lease, seq int64, set string, args ...any) (Turn, error) {
	return runs.changed(ctx, r, op, l, set, turnFence+` and `+logEnds("turns.id", "$3"), append([]any{seq}, args...)...)
}

// BeginAttempt records the session and the attempt before the agent is started. It resets the position in the agent's
// output, because positions of an earlier attempt are not valid for the new one.
func (runs TurnRuns) BeginAttempt(ctx context.Context, l Lease, seq int64, session string, resume bool, state json.RawMessage) (Turn, error) {
	return runs.fencedAt(ctx, runs.db.write, "begin attempt", l, seq,
		`attempt = attempt + 1, seq = $3, session = $4, resume = $5, read_to = 0, state = $6, started_at = coalesce(started_at, {now})`,
		session, resume, string(state))
}

// Ending is the data that End records.
type Ending struct {
	Append
	Outcome json.RawMessage
	Reply   []byte // the assistant's message for the outbox
	// Session is the agent session that the conversation continues with; empty: unchanged. Used reports whether the
	// session contains this turn.
	Session string
	Used    bool
}

// End records the result of the agent's work, its last events and the assistant's message, in one transaction.
func (runs TurnRuns) End(ctx context.Context, l Lease, e Ending) (t Turn, err error) {
	const op = "end turn"
	err = runs.db.inTx(ctx, func(tx *txn) error {
		if t, err = runs.fenced(ctx, tx, op, l, `status = 'finishing', outcome = $3`, string(e.Outcome)); err != nil {
			return err
		}
		if t, err = runs.appendOne(ctx, tx, op, l, e.Append); err != nil {
			return err
		}
		if len(t.Files) > 0 {
			if err := dropFiles(ctx, tx, t.ID); err != nil {
				return err
			}
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
		return runs.db.In(t.Tenant).Outgoing().enqueue(ctx, tx, Message{ID: t.Reply, Kind: OutboxMessage, Ref: t.Conversation, Payload: e.Reply})
	})
	return t, runs.db.fail(op, err)
}

// RecordFinishSteps records the finishing steps that are done, so that they are not repeated, and the save that is
// still pending.
func (runs TurnRuns) RecordFinishSteps(ctx context.Context, l Lease, done, warnings []string, owed *Save) (t Turn, err error) {
	const op = "record finish"
	err = runs.db.inTx(ctx, func(tx *txn) error {
		if t, err = runs.fenced(ctx, tx, op, l, `done = $3, warnings = $4, saving = $5`, listArg(done), listArg(warnings), owed != nil); err != nil || owed == nil {
			return err
		}
		return addSave(ctx, tx, *owed)
	})
	return t, runs.db.fail(op, err)
}

// Finish appends the turn's last event, stores the outcome, adds a note to the sandbox's metadata and ends the
// turn, which frees its slot.
func (runs TurnRuns) Finish(ctx context.Context, l Lease, status string, outcome json.RawMessage, last Append, note func(metadata map[string]string)) (t Turn, err error) {
	const op = "finish turn"
	err = runs.db.inTx(ctx, func(tx *txn) error {
		if t, err = runs.appendOne(ctx, tx, op, l, last); err != nil {
			return err
		}
		if note != nil {
			if err := updateMetadata(ctx, tx, t.Sandbox, note); err != nil {
				return err
			}
		}
		t, err = runs.fenced(ctx, tx, op, l, `status = $3, outcome = $4, slot = null, prompt = '', state = '', finished_at = {now}`, status, string(outcome))
		return err
	})
	return t, runs.db.fail(op, err)
}

// Forget removes the logs of up to limit turns that finished longer than age ago. It returns their number.
func (runs TurnRuns) Forget(ctx context.Context, age time.Duration, limit int) (int64, error) {
	n, err := runs.db.write.exec(ctx, `delete from turn_log where turn in (
		select id from turns where finished_at is not null and finished_at <= {now-$1}
			and exists (select 1 from turn_log where turn_log.turn = turns.id) order by finished_at limit $2)`, age.Microseconds(), clampLimit(limit))
	return n, runs.db.recordScan("forget events", err)
}
