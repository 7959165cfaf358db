package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	changesKept = 15 * time.Minute // age of a row of the log that is removed
	changesMost = 5000             // maximum number of changes that one read returns
)

// ErrTooFarBehind says that changes after a position may be gone, or are too many to be read one by one.
var ErrTooFarBehind = errors.New("the changes after this position are no longer kept")

// ChangeLog is the log of changes of sandboxes, conversations and turns, which watchers on every server follow.
//
// Transactions commit in another order than they begin and number their rows. A reader that went by the rows' numbers would
// miss those of a transaction that commits late. So it reads windows: all transactions from one number to another, the
// oldest that still runs. Nothing is added to such a window any more. Within it, rows are in the order of their numbers,
// which is the order of changes of one record.
type ChangeLog struct{ db *DB }

// NewChangeLog returns the log of a database.
func NewChangeLog(db *DB) ChangeLog { return ChangeLog{db} }

// LogPosition is a place in the log: everything of transactions before From was read, and of those from From on and
// before To the rows up to Seq.
type LogPosition struct {
	From, To, Seq int64
	At            time.Time // the time when To was found
}

// LoggedChange is one row of the log.
type LoggedChange struct {
	Position                  LogPosition // the position after it
	At                        time.Time
	Kind                      string // sandbox, conversation or turn
	ID, Sandbox, Conversation string
	State                     string // of the sandbox or the turn, after the change
	Deleted                   bool
}

// End returns the position after everything that every reader can see now.
func (l ChangeLog) End(ctx context.Context) (p LogPosition, err error) {
	p, err = first(ctx, l.db.read, func(row scanner) (LogPosition, error) {
		err := row.Scan(&p.From, instant{&p.At})
		p.To = p.From
		return p, err
	}, `select `+l.db.dialect.oldestTx+`, {now}`)
	return p, l.db.fail("read end of the log of changes", err)
}

// Tenants returns the tenants with changes between two positions that End has returned.
func (l ChangeLog) Tenants(ctx context.Context, from, to LogPosition) ([]TenantID, error) {
	all, err := all(ctx, l.db.read, scanOne[TenantID], `select distinct tenant from change_log where tx >= $1 and tx < $2`, from.To, to.To)
	return all, l.db.fail("read log of changes", err)
}

// Read returns the changes in the scope after a position, and the position after them. It returns ErrTooFarBehind if it
// cannot ensure that these are all.
func (l ChangeLog) Read(ctx context.Context, s Scope, after LogPosition) ([]LoggedChange, LogPosition, error) {
	end, err := l.End(ctx)
	switch {
	case err != nil:
		return nil, after, err
	case after.To > end.To || after.From > after.To, // of another database
		end.At.Sub(after.At) > changesKept*2/3, // a third is for transactions that were open, and for clocks
		after.At.Sub(end.At) > changesKept/3:
		return nil, end, ErrTooFarBehind
	}
	after.At = end.At
	var changes, more []LoggedChange
	if after.From < after.To {
		changes, err = l.window(ctx, s, after)
	}
	if err == nil && after.To < end.To {
		more, err = l.window(ctx, s, LogPosition{From: after.To, To: end.To, At: end.At})
		changes = append(changes, more...)
	}
	if err != nil {
		return nil, after, err
	}
	if len(changes) > changesMost {
		return nil, end, ErrTooFarBehind
	}
	return changes, end, nil
}

// window returns the changes after a position in its window, and one more than changesMost at most.
func (l ChangeLog) window(ctx context.Context, s Scope, after LogPosition) ([]LoggedChange, error) {
	text := `select seq, at, kind, id, sandbox, conversation, state, deleted from change_log
		where tenant = $1 and tx >= $2 and tx < $3 and seq > $4`
	args := []any{s.tenant, after.From, after.To, after.Seq, changesMost + 1}
	if s.account != "" {
		args = append(args, s.account)
		text += fmt.Sprintf(" and account = $%d", len(args))
	}
	found, err := all(ctx, l.db.read, func(row scanner) (LoggedChange, error) {
		c := LoggedChange{Position: after}
		err := row.Scan(&c.Position.Seq, instant{&c.At}, &c.Kind, &c.ID, &c.Sandbox, &c.Conversation, &c.State, &c.Deleted)
		return c, err
	}, text+` order by seq limit $5`, args...)
	return found, l.db.fail("read log of changes", err)
}

// Prune removes rows that are older than readers may ask for, and returns how many.
func (l ChangeLog) Prune(ctx context.Context) (removed int64, err error) {
	const batch = 10_000
	for n := int64(batch); n == batch && err == nil; removed += n {
		n, err = l.db.write.exec(ctx, `delete from change_log where seq in
			(select seq from change_log where at < {now-$1} order by at limit $2 {skip locked})`, changesKept.Microseconds(), batch)
	}
	return removed, l.db.fail("prune log of changes", err)
}

// Run prunes the log every minute until the context ends.
func (l ChangeLog) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		if _, err := l.Prune(ctx); err != nil && ctx.Err() == nil {
			l.db.log.WarnContext(ctx, "the log of changes was not pruned", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
