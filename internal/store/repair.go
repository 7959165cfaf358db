package store

import (
	"context"
	"database/sql"
	"slices"

	"github.com/pressly/goose/v3"
)

// Three migrations shipped with more than one text. 00002 had other indexes at first, 00003 first had
// another primary key of messages, and for a while it already made the tables that 00004 makes. Databases
// of all of them are brought to one schema: adoptTurnLog before the migrations run, repairSchema as
// migration 5.

// repairVersion is the migration that repairs; it has no file.
const repairVersion = 5

// repairName is what [Schema.Applied] calls it.
const repairName = "00005_repair"

// adoptTurnLog records 00004 as applied where 00003 has already made its tables. Without it 00004 fails on
// the column log_bytes, which such a database never had.
func (db *DB) adoptTurnLog(ctx context.Context) error {
	return db.atomically(ctx, func(tx *txn) error {
		turns, err := columnsOf(ctx, tx.Tx, db.dialect, "turns")
		if err != nil {
			return err
		}
		log, err := columnsOf(ctx, tx.Tx, db.dialect, "turn_log")
		if err != nil || slices.Contains(turns, "log_bytes") || !slices.Contains(log, "read_to") {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert into `+versionTable+` (version_id, is_applied) values (4, true)`)
		return err
	})
}

func (d *dialect) repairMigration() *goose.Migration {
	run := func(ctx context.Context, tx *sql.Tx) error { return repairSchema(ctx, tx, d) }
	return goose.NewGoMigration(repairVersion, &goose.GoFunc{RunTx: run}, nil)
}

// repairSchema gives a database what the last texts of 00002 and 00003 make and earlier ones did not. On a
// database of the last texts it changes nothing.
func repairSchema(ctx context.Context, tx *sql.Tx, d *dialect) error {
	for _, r := range repairs {
		columns, err := columnsOf(ctx, tx, d, r.name(d))
		if err != nil {
			return err
		}
		if r.good(columns) {
			continue
		}
		for _, text := range r.texts {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// repair runs statements unless the columns of a table or an index are good.
type repair struct {
	name  func(*dialect) string
	good  func(columns []string) bool
	texts []string
}

var repairs = []repair{
	{named("sandboxes_claims"), absent, []string{`drop index sandboxes_claims`}},
	{named("sandboxes_idle"), has("tenant"), []string{
		`drop index if exists sandboxes_idle`,
		`create index sandboxes_idle on sandboxes (owner_kind, active_at, tenant) where deleted_at is null`,
	}},
	{named("sandboxes_placed"), present, []string{
		`create index sandboxes_placed on sandboxes (driver, id, host) where instance <> ''`,
	}},
	{named("project_sandboxes_status"), present, []string{`
		create index project_sandboxes_status on sandboxes ((
			case state
				when 'pending' then 'PENDING'
				when 'creating' then 'CREATING'
				when 'starting' then 'CREATING'
				when 'running' then 'RUNNING'
				when 'unhealthy' then 'UNHEALTHY'
				when 'stopping' then 'STOPPED'
				when 'stopped' then 'STOPPED'
				when 'archived' then 'STOPPED'
				when 'terminating' then 'TERMINATED'
				when 'terminated' then 'TERMINATED'
				else 'ERROR'
			end
		)) where owner_kind = 'project' and deleted_at is null`,
	}},
	// The copy is made first and the table anew after it, so that its primary key has the usual name.
	{messagesKey, has("tenant"), []string{
		`create table messages_copy as select tenant, conversation, id, body from messages`,
		`drop table messages`,
		`create table messages (
			tenant       text not null,
			conversation text not null,
			id           text not null,
			body         text not null,
			primary key (tenant, conversation, id)
		)`,
		`insert into messages (tenant, conversation, id, body) select tenant, conversation, id, body from messages_copy`,
		`drop table messages_copy`,
	}},
}

func named(name string) func(*dialect) string { return func(*dialect) string { return name } }

func has(column string) func([]string) bool {
	return func(columns []string) bool { return slices.Contains(columns, column) }
}

func present(columns []string) bool { return len(columns) > 0 }

func absent(columns []string) bool { return len(columns) == 0 }

// messagesKey is the index of the primary key of messages.
func messagesKey(d *dialect) string {
	if d == sqliteDialect {
		return "sqlite_autoindex_messages_1"
	}
	return "messages_pkey"
}

// columnsOf lists the columns of a table or an index, none if there is no such thing.
func columnsOf(ctx context.Context, tx *sql.Tx, d *dialect, name string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, d.columns, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var columns []string
	for rows.Next() {
		var column sql.NullString // an expression of an index has no name in SQLite
		if err := rows.Scan(&column); err != nil {
			return nil, err
		}
		columns = append(columns, column.String)
	}
	return columns, rows.Err()
}
