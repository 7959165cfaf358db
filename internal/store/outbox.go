package store

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Message is delivered at least once. Its id never changes, so that the receiver can recognise a repeated delivery.
type Message struct {
	ID        string // empty on enqueue: a new id is generated
	Tenant    TenantID
	Kind      string
	Ref       string // the id of the object that the message is about
	Payload   []byte
	Attempts  int64 // started deliveries, including this one
	LastError string
	CreatedAt time.Time
	DueAt     time.Time
}

const messageColumns = "id, tenant, kind, ref, payload, attempts, last_error, created_at, due_at"

func scanMessage(row scanner) (m Message, err error) {
	err = row.Scan(&m.ID, &m.Tenant, &m.Kind, &m.Ref, &m.Payload, &m.Attempts, &m.LastError, instant{&m.CreatedAt}, instant{&m.DueAt})
	return m, err
}

// Outgoing holds the messages of a tenant that are not delivered yet.
type Outgoing struct{ scope Scope }

// Outgoing returns the tenant's undelivered messages.
func (s Scope) Outgoing() Outgoing { return Outgoing{s} }

// Enqueue puts a message into the outbox. An existing id stays unchanged.
func (o Outgoing) Enqueue(ctx context.Context, m Message) error {
	return o.scope.db.fail("enqueue message", o.enqueue(ctx, o.scope.db.write, m))
}

// enqueue is Enqueue inside a larger transaction.
func (o Outgoing) enqueue(ctx context.Context, r runner, m Message) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	_, err := r.exec(ctx, `
		insert into outbox (id, tenant, kind, ref, payload, attempts, last_error, created_at, due_at)
		values ($1, $2, $3, $4, $5, 0, '', {now}, {now}) on conflict do nothing`, m.ID, o.scope.tenant, m.Kind, m.Ref, m.Payload)
	return err
}

// List returns one page of the tenant's undelivered messages, newest first, and the position of the next
// page.
func (o Outgoing) List(ctx context.Context, page Page) ([]Message, Position, error) {
	l := listing[Message]{
		columns: messageColumns, table: "outbox", scan: scanMessage,
		position: func(m Message) Position { return Position{m.CreatedAt, m.ID} },
	}
	l.where("tenant = $%d", o.scope.tenant)
	items, next, err := l.read(ctx, o.scope.db.read, page)
	return items, next, o.scope.db.fail("list outbox", err)
}

// Count returns how many of the tenant's messages about ref are not delivered yet, and the error of the
// last attempt.
func (o Outgoing) Count(ctx context.Context, ref string) (n int64, lastError string, err error) {
	type waiting struct {
		n    int64
		last string
	}
	found, err := first(ctx, o.scope.db.read, func(row scanner) (w waiting, err error) {
		err = row.Scan(&w.n, &w.last)
		return w, err
	}, `
		select count(*), coalesce((
			select last_error from outbox where tenant = $1 and ref = $2 and ref <> '' and last_error <> '' order by due_at desc, id limit 1
		), '') from outbox where tenant = $1 and ref = $2 and ref <> ''`, o.scope.tenant, ref)
	return found.n, found.last, o.scope.db.fail("count outbox", err)
}

// Claiming selects messages to claim.
type Claiming struct {
	Kind  string
	Ref   string        // if set, only messages about this object, including those that are not due yet
	Limit int           // the maximum number of messages
	TTL   time.Duration // lifetime of the claim: a message that is neither removed nor retried by then is due again
}

// Outbox delivers the messages of all tenants.
type Outbox struct{ db *DB }

// Outbox returns the messages of all tenants.
func (db *DB) Outbox() Outbox { return Outbox{db} }

// ClaimMessages claims messages for delivery: the longest due first, or, with Ref, in the order of their creation.
func (outbox Outbox) ClaimMessages(ctx context.Context, c Claiming) ([]Message, error) {
	which, order, args := "due_at <= {now}", "due_at, id", []any{clampLimit(c.Limit), c.TTL.Microseconds(), c.Kind}
	if c.Ref != "" {
		which, order, args = "ref = $4 and ref <> ''", "created_at, id", append(args, c.Ref)
	}
	claimed, err := all(ctx, outbox.db.write, scanMessage, `
		with due as materialized (
			select id from outbox where kind = $3 and `+which+` order by `+order+` limit $1 {skip locked}
		)
		update outbox set attempts = attempts + 1, due_at = {now+$2} where id in (select id from due)
		returning `+messageColumns, args...)
	slices.SortFunc(claimed, func(a, b Message) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	if c.Ref != "" { // claimed for a request, within its deadline
		return claimed, outbox.db.fail("claim messages", err)
	}
	return claimed, outbox.db.recordScan("claim messages of kind "+c.Kind, err)
}

// RemoveMessage removes a claimed message after its delivery. It returns ErrStale when it was claimed again.
func (outbox Outbox) RemoveMessage(ctx context.Context, m Message) error {
	const op = "record delivery"
	n, err := outbox.db.write.exec(ctx, `delete from outbox where id = $1 and attempts = $2`, m.ID, m.Attempts)
	if err == nil && n == 0 {
		return stale(op, "message "+m.ID)
	}
	return outbox.db.fail(op, err)
}

// Retry schedules a claimed message for another delivery and stores the cause of the failure. It returns ErrStale
// when the message was claimed again.
func (outbox Outbox) Retry(ctx context.Context, m Message, after time.Duration, cause string) error {
	const op = "put message back"
	n, err := outbox.db.write.exec(ctx, `update outbox set due_at = {now+$3}, last_error = $4 where id = $1 and attempts = $2`,
		m.ID, m.Attempts, after.Microseconds(), printable(cause))
	if err == nil && n == 0 {
		return stale(op, "message "+m.ID)
	}
	return outbox.db.fail(op, err)
}
