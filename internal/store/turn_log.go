package store

import (
	"bytes"
	"context"
	"encoding/json"
)

// Append holds events for a turn's log. They follow the event number After and were read from the agent's output up to
// To. They are appended only if the log ends at After. Otherwise another holder has appended, or an event was lost.
type Append struct {
	After, To int64
	State     json.RawMessage
	Events    [][]byte // each a JSON text without line breaks
}

func (a Append) first() int64 { return a.After + 1 }
func (a Append) last() int64  { return a.After + int64(len(a.Events)) }
func (a Append) data() []byte { return bytes.Join(a.Events, []byte{'\n'}) }

// TurnAppend is an Append, with at least one event, to one of many turns.
type TurnAppend struct {
	Lease Lease
	Append
}

// logEnds returns the condition that a turn's log ends at a number. A crash of the database may lose the last events.
// A holder that continues after them finds out by this condition and reads them again.
func logEnds(turn, number string) string {
	return `coalesce((select tail.last from turn_log tail where tail.turn = ` + turn + ` order by tail.first desc limit 1), 0) = ` + number
}

// Append appends to the logs of many turns in one transaction, and reports for each whether it was appended: a
// holder that lost the turn's lease appends nothing. It does not wait for the disk. If a crash loses events, they are
// read again from the agents' output.
func (runs TurnRuns) Append(ctx context.Context, batch []TurnAppend) ([]bool, error) {
	done, err := runs.db.dialect.appendTurns(ctx, runs.db, batch)
	return done, runs.db.fail("append events", err)
}

// appendOne appends inside a larger transaction and updates the turn's row.
func (runs TurnRuns) appendOne(ctx context.Context, tx *txn, op string, l Lease, a Append) (Turn, error) {
	t, err := runs.move(ctx, tx, op, l, a)
	if err != nil || len(a.Events) == 0 {
		return t, err
	}
	if _, err = tx.exec(ctx, `insert into turn_log (turn, first, last, data, read_to, state) values ($1, $2, $3, $4, $5, $6)`,
		l.ID, a.first(), a.last(), a.data(), a.To, string(a.State)); err != nil && runs.db.dialect.duplicate(err) {
		err = stale(op, "turn "+l.ID)
	}
	return t, err
}

// Advance records the position in the agent's output if the output produced no event.
func (runs TurnRuns) Advance(ctx context.Context, l Lease, a Append) (Turn, error) {
	return runs.move(ctx, runs.db.write, "read on", l, a)
}

func (runs TurnRuns) move(ctx context.Context, r runner, op string, l Lease, a Append) (Turn, error) {
	return runs.fencedAt(ctx, r, op, l, a.After, `seq = $4, read_to = $5, state = $6`, a.last(), a.To, string(a.State))
}

// appendTurnsSQLite uses the one writing connection. Its commit does not wait for the disk.
func appendTurnsSQLite(ctx context.Context, db *DB, batch []TurnAppend) ([]bool, error) {
	done := make([]bool, len(batch))
	err := db.inRelaxedTx(ctx, func(tx *txn) error {
		for i, a := range batch {
			n, err := tx.exec(ctx, `
				insert into turn_log (turn, first, last, data, read_to, state)
				select turns.id, $3, $4, $5, $6, $7 from turns where `+turnFence+` and `+logEnds("turns.id", "$3 - 1")+` on conflict do nothing`,
				a.Lease.ID, a.Lease.Epoch, a.first(), a.last(), a.data(), a.To, string(a.State))
			if err != nil {
				return err
			}
			done[i] = n == 1
		}
		return nil
	})
	return done, err
}

// appendTurnsPostgres uses one statement for all turns. It turns off waiting for the disk for this statement only,
// because a pooler may share connections. A new holder waits for running appends, and later appends see that the lease
// was taken.
func appendTurnsPostgres(ctx context.Context, db *DB, batch []TurnAppend) ([]bool, error) {
	n := len(batch)
	turns, states, data := make([]string, n), make([]string, n), make([][]byte, n)
	epochs, firsts, lasts, tos := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	at := make(map[string]int, n)
	for i, a := range batch {
		if _, twice := at[a.Lease.ID]; twice { // from an old and a new holder
			return appendInTwo(ctx, db, batch, i)
		}
		at[a.Lease.ID] = i
		turns[i], epochs[i], firsts[i], lasts[i] = a.Lease.ID, a.Lease.Epoch, a.first(), a.last()
		data[i], tos[i], states[i] = a.data(), a.To, string(a.State)
	}
	args := []any{turns, epochs, firsts, lasts, data, tos, states}
	kept, err := all(ctx, db.write, scanOne[string], insertEvents+` returning turn`, args...)
	if err != nil && db.dialect.duplicate(err) { // an earlier append of this process succeeded, but its reply was lost
		kept, err = all(ctx, db.write, scanOne[string], insertEvents+` on conflict do nothing returning turn`, args...)
	}
	done := make([]bool, n)
	for _, turn := range kept {
		done[at[turn]] = true
	}
	return done, err
}

// insertEvents has no "on conflict": its condition ensures that the rows do not exist, and the clause would add about
// a third of the time.
var insertEvents = `
		with held as materialized (
			select id, epoch from turns where id = any($1::text[]) and finished_at is null
				and (select set_config('synchronous_commit', 'off', true)) = 'off'
			for share
		)
		insert into turn_log (turn, first, last, data, read_to, state)
		select asked.turn, asked.first, asked.last, asked.data, asked.read_to, asked.state
		from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::text[])
			as asked (turn, epoch, first, last, data, read_to, state)
		join held on held.id = asked.turn and held.epoch = asked.epoch and ` + logEnds("asked.turn", "asked.first - 1")

func appendInTwo(ctx context.Context, db *DB, batch []TurnAppend, i int) ([]bool, error) {
	done, err := appendTurnsPostgres(ctx, db, batch[:i])
	if err != nil {
		return nil, err
	}
	more, err := appendTurnsPostgres(ctx, db, batch[i:])
	return append(done, more...), err
}

// LogPart is a run of events from number First on, and the position in the agent's output where they end.
type LogPart struct {
	First  int64
	Events [][]byte
	To     int64
	State  json.RawMessage
}

// ReadLog returns the events after a number: about most bytes, but at least one part if there is any.
func (runs TurnRuns) ReadLog(ctx context.Context, turn string, after int64, most int) ([]LogPart, error) {
	const parts = 500
	size := 0
	read, err := all(ctx, runs.db.read, func(row scanner) (p LogPart, err error) {
		var data, state []byte
		if err = row.Scan(&p.First, &data, &p.To, &state); err != nil {
			return p, err
		}
		p.Events, p.State = bytes.Split(data, []byte{'\n'}), state
		return p, nil
	}, `select first, data, read_to, state from turn_log where turn = $1 and last > $2 order by first limit $3`, turn, after, parts)
	for i, p := range read {
		if skip := after + 1 - p.First; skip > 0 {
			read[i].First, read[i].Events = after+1, p.Events[min(skip, int64(len(p.Events))):]
		}
		for _, e := range p.Events {
			size += len(e)
		}
		if size > most {
			read = read[:i+1]
			break
		}
	}
	return read, runs.db.fail("read events", err)
}
