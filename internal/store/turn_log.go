package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Append is events for a turn's log, read from the agent's output up to To. It counts only if the log
// stands where the reader believes, at From, and is one with the place that is reached.
type Append struct {
	From, To int64
	State    json.RawMessage
	Events   [][]byte // each one JSON text without a line break
}

func (a Append) data() []byte { return bytes.Join(a.Events, []byte{'\n'}) }

// TurnAppend is an Append to one of many turns.
type TurnAppend struct {
	Lease Lease
	Append
}

// Appended says what became of a TurnAppend: the number of its last event, or that its lease was lost.
type Appended struct {
	Seq      int64
	LogBytes int64
	Stale    bool
}

// AppendTurns appends to the logs of many turns in one transaction. It does not wait for the disk: what a
// crash loses is read again from the agents' output.
func (db *DB) AppendTurns(ctx context.Context, batch []TurnAppend) ([]Appended, error) {
	done, err := db.dialect.appendTurns(ctx, db, batch)
	return done, db.fail("append events", err)
}

// appendOne appends within a larger transaction.
func (db *DB) appendOne(ctx context.Context, tx *txn, op string, l Lease, t Turn, a Append) (Turn, error) {
	data := a.data()
	after, err := first(ctx, tx, scanTurn, `
		update turns set seq = seq + $3, read_to = $5, state = $6, log_bytes = log_bytes + $7
		where `+turnFence+` and read_to = $4 returning `+turnColumns,
		l.ID, l.Epoch, len(a.Events), a.From, a.To, string(a.State), len(data))
	if errors.Is(err, sql.ErrNoRows) {
		return t, stale(op, "turn "+l.ID)
	}
	if err != nil || len(a.Events) == 0 {
		return after, err
	}
	_, err = tx.exec(ctx, insertLog, l.ID, after.Seq-int64(len(a.Events))+1, after.Seq, data)
	return after, err
}

const insertLog = `insert into turn_log (turn, first, last, data) values ($1, $2, $3, $4)`

// appendTurnsSQLite has the one writer for itself; while it does, commits need not reach the disk.
func appendTurnsSQLite(ctx context.Context, db *DB, batch []TurnAppend) (done []Appended, err error) {
	done = make([]Appended, len(batch))
	err = db.dialect.lazily(ctx, db, func(tx *txn) error {
		for i, a := range batch {
			if done[i], err = appendBriefly(ctx, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// appendBriefly is appendOne for those who know the turn: reading its row back, prompt and all, is most of the work.
func appendBriefly(ctx context.Context, tx *txn, a TurnAppend) (Appended, error) {
	data := a.data()
	done, err := first(ctx, tx, func(row scanner) (d Appended, err error) {
		err = row.Scan(&d.Seq, &d.LogBytes)
		return d, err
	}, `update turns set seq = seq + $3, read_to = $5, state = $6, log_bytes = log_bytes + $7
		where `+turnFence+` and read_to = $4 returning seq, log_bytes`,
		a.Lease.ID, a.Lease.Epoch, len(a.Events), a.From, a.To, string(a.State), len(data))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Appended{Stale: true}, nil
	case err != nil || len(a.Events) == 0:
		return done, err
	}
	_, err = tx.exec(ctx, insertLog, a.Lease.ID, done.Seq-int64(len(a.Events))+1, done.Seq, data)
	return done, err
}

// appendTurnsPostgres is one statement for all of them, however many.
func appendTurnsPostgres(ctx context.Context, db *DB, batch []TurnAppend) ([]Appended, error) {
	const columns = 8
	var rows strings.Builder
	args := make([]any, 0, columns*len(batch))
	for i, a := range batch {
		if i > 0 {
			rows.WriteByte(',')
		}
		n := columns * i
		fmt.Fprintf(&rows, "(cast($%d as bigint),cast($%d as text),cast($%d as bigint),cast($%d as bigint),cast($%d as bigint),cast($%d as bigint),cast($%d as text),cast($%d as bytea))",
			n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8)
		args = append(args, i, a.Lease.ID, a.Lease.Epoch, a.From, a.To, len(a.Events), string(a.State), a.data())
	}
	text := `
		with asked (i, turn, epoch, at, reached, n, state, data) as (values ` + rows.String() + `),
			moved as (
				update turns set seq = turns.seq + asked.n, read_to = asked.reached, state = asked.state, log_bytes = turns.log_bytes + length(asked.data)
				from asked where turns.id = asked.turn and turns.epoch = asked.epoch and turns.read_to = asked.at and finished_at is null
				returning asked.i, turns.id, turns.seq, turns.log_bytes
			),
			logged as (
				insert into turn_log (turn, first, last, data)
				select moved.id, moved.seq - asked.n + 1, moved.seq, asked.data from moved join asked on asked.i = moved.i where asked.n > 0
			)
		select i, seq, log_bytes from moved`
	done := make([]Appended, len(batch))
	for i := range done {
		done[i].Stale = true
	}
	err := db.dialect.lazily(ctx, db, func(tx *txn) error {
		_, err := all(ctx, tx, func(row scanner) (i int, err error) {
			var a Appended
			if err = row.Scan(&i, &a.Seq, &a.LogBytes); err == nil {
				done[i] = a
			}
			return i, err
		}, text, args...)
		return err
	})
	return done, err
}

// LogPart is events of a log, from the number First on.
type LogPart struct {
	First  int64
	Events [][]byte
}

// ReadLog returns events behind a number, about as many bytes as asked for and at least one part if there
// is any.
func (db *DB) ReadLog(ctx context.Context, turn string, after int64, most int) ([]LogPart, error) {
	const parts = 500
	size := 0
	read, err := all(ctx, db.read, func(row scanner) (p LogPart, err error) {
		var data []byte
		if err = row.Scan(&p.First, &data); err != nil {
			return p, err
		}
		p.Events = bytes.Split(data, []byte{'\n'})
		return p, nil
	}, `select first, data from turn_log where turn = $1 and last > $2 order by first limit $3`, turn, after, parts)
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
	return read, db.fail("read events", err)
}
