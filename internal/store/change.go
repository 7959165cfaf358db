package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthdev/berth/internal/sandbox"
)

// change is a statement that inserts or updates one sandbox, with its history entry. The row's column changes counts
// the entries and is the number of the newest one. A statement that does not raise it writes no entry.
type change struct {
	text string // insert into sandboxes or update of it, without returning
	args []any

	event         sandbox.Event // empty for a change of Want
	from          sandbox.State // used with event only
	reason, actor string

	count count // effect on the tenant's quota of sandboxes
}

func (c change) noteArgs() []any {
	return []any{c.event, c.from, printable(c.reason), printable(c.actor)}
}

// note returns the statement that writes the history entry of the row in source. Its arguments follow n others.
func note(source string, n int) string {
	return fmt.Sprintf(`
		insert into history (sandbox, seq, at, event, from_state, to_state, want, reason, actor, generation, incarnation, instance)
		select id, changes, {now}, cast($%[2]d as text), case when $%[2]d = '' then state else cast($%[3]d as text) end, state, want,
			cast($%[4]d as text), cast($%[5]d as text), generation, incarnation, instance
		from %[1]s
		on conflict (sandbox, seq) do nothing`, source, n+1, n+2, n+3, n+4)
}

// applyPostgres uses one statement: if the process stops halfway, no transaction stays open and no row stays locked.
func applyPostgres(ctx context.Context, db *DB, c change) (sandbox.Sandbox, error) {
	args := append(c.args[:len(c.args):len(c.args)], c.noteArgs()...)
	text := `with changed as (` + c.text + ` returning sandboxes.*), noted as (` + note("changed", len(c.args)) + `)`
	if c.count.by != 0 {
		text += `, counted as (` + c.count.text("changed where true", len(args)) + `)`
		args = append(args, c.count.args()...)
	}
	return first(ctx, db.write, db.scanSandbox, text+` select `+sandboxColumns+` from changed as sandboxes`, args...)
}

// applySQLite uses a transaction, because SQLite has no writing subqueries.
func applySQLite(ctx context.Context, db *DB, c change) (sb sandbox.Sandbox, err error) {
	err = db.inTx(ctx, func(tx *txn) error {
		if sb, err = first(ctx, tx, db.scanSandbox, c.text+` returning `+sandboxColumns, c.args...); err != nil {
			return err
		}
		if _, err = tx.exec(ctx, note("sandboxes where id = $1", 1), append([]any{sb.ID}, c.noteArgs()...)...); err != nil || c.count.by == 0 {
			return err
		}
		_, err = tx.exec(ctx, c.count.text("sandboxes where id = $1", 1), append([]any{sb.ID}, c.count.args()...)...)
		return err
	})
	return sb, err
}

// printable makes a text storable: PostgreSQL accepts neither invalid UTF-8 nor NUL.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
