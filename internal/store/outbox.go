package store

import (
	"context"
	"time"
)

// Message is something to be delivered at least once. Its id never changes, so that the receiver can
// tell a second delivery.
type Message struct {
	ID        string // empty on enqueue: a new one is made
	Tenant    TenantID
	Kind      string
	Payload   []byte
	Attempts  int64 // deliveries begun, this one included
	LastError string
	CreatedAt time.Time
	DueAt     time.Time
}

const messageColumns = "id, tenant, kind, payload, attempts, last_error, created_at, due_at"

func scanMessage(row scanner) (m Message, err error) {
	err = row.Scan(&m.ID, &m.Tenant, &m.Kind, &m.Payload, &m.Attempts, &m.LastError, instant{&m.CreatedAt}, instant{&m.DueAt})
	return m, err
}

// Enqueue puts a message into the outbox. An id that is there already is left as it is.
func (s Scope) Enqueue(ctx context.Context, m Message) error {
	return s.db.fail("enqueue message", s.enqueue(ctx, s.db.write, m))
}

// enqueue is for the outbox rows of a larger transaction, too.
func (s Scope) enqueue(ctx context.Context, r runner, m Message) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	_, err := r.exec(ctx, `
		insert into outbox (id, tenant, kind, payload, attempts, last_error, created_at, due_at)
		values ($1, $2, $3, $4, 0, '', {now}, {now}) on conflict do nothing`, m.ID, s.tenant, m.Kind, m.Payload)
	return err
}

// Undelivered returns one page of the tenant's messages that are not delivered yet, newest first, and
// where the next one begins.
func (s Scope) Undelivered(ctx context.Context, page Page) ([]Message, Position, error) {
	l := listing[Message]{
		columns: messageColumns, table: "outbox", scan: scanMessage,
		position: func(m Message) Position { return Position{m.CreatedAt, m.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list outbox", err)
}

// ClaimMessages claims up to limit messages that are due, longest due first, for ttl. A message that
// is neither delivered nor retried by then is due again: its claimer died.
func (db *DB) ClaimMessages(ctx context.Context, limit int, ttl time.Duration) ([]Message, error) {
	claimed, err := all(ctx, db.write, scanMessage, `
		with due as materialized (
			select id from outbox where due_at <= {now} order by due_at, id limit $1 {skip locked}
		)
		update outbox set attempts = attempts + 1, due_at = {now+$2} where id in (select id from due)
		returning `+messageColumns, clampLimit(limit), ttl.Microseconds())
	return claimed, db.fail("claim messages", err)
}

// Delivered removes a claimed message, or returns ErrStale when it was claimed again meanwhile.
func (db *DB) Delivered(ctx context.Context, m Message) error {
	const op = "record delivery"
	n, err := db.write.exec(ctx, `delete from outbox where id = $1 and attempts = $2`, m.ID, m.Attempts)
	if err == nil && n == 0 {
		return stale(op, "message "+m.ID)
	}
	return db.fail(op, err)
}

// Retry puts a claimed message back for another delivery at the given time, with what went wrong, or
// returns ErrStale when it was claimed again meanwhile.
func (db *DB) Retry(ctx context.Context, m Message, when time.Time, cause string) error {
	const op = "put message back"
	n, err := db.write.exec(ctx, `update outbox set due_at = $3, last_error = $4 where id = $1 and attempts = $2`,
		m.ID, m.Attempts, at(when), printable(cause))
	if err == nil && n == 0 {
		return stale(op, "message "+m.ID)
	}
	return db.fail(op, err)
}
