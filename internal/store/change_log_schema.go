package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/pressly/goose/v3"
)

// The table change_log has a row for each change of a sandbox, a conversation or a turn that watchers are to see. Triggers
// write it, so that it is in the transaction of the change, whatever statement makes it and whichever version of Berth
// runs it. The engines write triggers differently, so the migration is Go code and has no file.
const (
	changeLogVersion = 23
	changeLogName    = "00023_change_log"
)

// changeLogColumns are the columns that triggers write. tx orders transactions: the number of the transaction on
// PostgreSQL, the row's own number on SQLite, whose transactions are one after the other.
const changeLogColumns = `tenant, account, kind, id, sandbox, conversation, state, deleted`

// changeTrigger says what of a table is logged.
type changeTrigger struct {
	table, kind string
	watched     []string // an update of any of these columns is a change
	values      string   // of changeLogColumns
}

var changeTriggers = []changeTrigger{
	{"sandboxes", "sandbox", []string{"changes", "want", "name", "metadata", "deleted_at", "failure", "save_failure"},
		`new.tenant, new.account, 'sandbox', new.id, new.id, '', new.state, new.deleted_at is not null`},
	{"conversations", "conversation", []string{"title", "agent", "sandbox", "messages", "metadata", "deleted_at"},
		`new.tenant, new.account, 'conversation', new.id, new.sandbox, new.id, '', new.deleted_at is not null`},
	{"turns", "turn", []string{"status", "cancel_at", "version"},
		`new.tenant, coalesce((select c.account from conversations c where c.id = new.conversation), ''), 'turn', new.id, new.sandbox, new.conversation, new.status, false`},
}

func (d *dialect) changeLogMigration() *goose.Migration {
	run := func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range d.changeLogSchema() {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("%w in %s", err, text)
			}
		}
		return nil
	}
	return goose.NewGoMigration(changeLogVersion, &goose.GoFunc{RunTx: run}, nil)
}

func (d *dialect) changeLogSchema() []string {
	seq, tx, at := `integer primary key autoincrement`, `bigint generated always as (seq)`, `(cast(unixepoch('subsec') * 1000000 as integer))`
	if d.goose == goose.DialectPostgres {
		seq, tx, at = `bigint generated always as identity primary key`, `bigint not null default (pg_current_xact_id()::text::bigint)`, `clock_timestamp()`
	}
	texts := []string{
		fmt.Sprintf(`create table change_log (
			seq %s, tx %s, at timestamptz not null default %s,
			tenant text not null, account text not null, kind text not null, id text not null,
			sandbox text not null, conversation text not null, state text not null, deleted boolean not null)`, seq, tx, at),
		`create index change_log_tenant on change_log (tenant, tx)`,
		`create index change_log_tx on change_log (tx)`,
		`create index change_log_at on change_log (at)`,
	}
	for _, t := range changeTriggers {
		texts = append(texts, d.triggerTexts(t)...)
	}
	return texts
}

// triggerTexts returns the two triggers of a table: for new rows, and for changes of the watched columns.
func (d *dialect) triggerTexts(t changeTrigger) []string {
	var changed []string
	for _, column := range t.watched {
		changed = append(changed, fmt.Sprintf("old.%[1]s is distinct from new.%[1]s", column))
	}
	when := "when (" + strings.Join(changed, " or ") + ")"
	insert := fmt.Sprintf(`insert into change_log (%s) values (%s)`, changeLogColumns, t.values)
	begin := `create trigger ` + t.table + `_%s_log after %s on ` + t.table + ` for each row %s `
	if d.goose != goose.DialectPostgres {
		body := `begin ` + insert + `; end`
		return []string{fmt.Sprintf(begin, "insert", "insert", "") + body, fmt.Sprintf(begin, "update", "update", when) + body}
	}
	function := fmt.Sprintf(`create function log_%s_change() returns trigger language plpgsql as $$ begin %s; return null; end $$`, t.kind, insert)
	call := `execute function log_` + t.kind + `_change()`
	return []string{function, fmt.Sprintf(begin, "insert", "insert", "") + call, fmt.Sprintf(begin, "update", "update", when) + call}
}
