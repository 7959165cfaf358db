package store

import (
	"context"
	"database/sql"
	"slices"

	"github.com/pressly/goose/v3"
)

// Four migrations were shipped with more than one text. 00002 first had other indexes. 00003 first had another primary
// key of messages, and for a while it already created the tables of 00004. 00007 first created no table hosts.
// adoptTurnLog (before the migrations) and the repairs (migrations 5 and 10) bring all these databases to one schema.

// The repair migrations are Go code and have no file.
const (
	repairVersion      = 5
	repairHostsVersion = 10
)

// repairNames are the names of the repair migrations in [Schema.Applied].
var repairNames = map[int64]string{repairVersion: "00005_repair", repairHostsVersion: "00010_repair_hosts"}

// adoptTurnLog records 00004 as applied if 00003 already created its tables. Otherwise 00004 would fail on the column
// log_bytes, which such a database does not have.
func (m migrator) adoptTurnLog(ctx context.Context) error {
	return m.db.inTx(ctx, func(tx *txn) error {
		turns, err := columnsOf(ctx, tx.Tx, m.db.dialect, "turns")
		if err != nil {
			return err
		}
		log, err := columnsOf(ctx, tx.Tx, m.db.dialect, "turn_log")
		if err != nil || slices.Contains(turns, "log_bytes") || !slices.Contains(log, "read_to") {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert into `+versionTable+` (version_id, is_applied) values (4, true)`)
		return err
	})
}

func (d *dialect) repairMigration(version int64, repairs []repair) *goose.Migration {
	run := func(ctx context.Context, tx *sql.Tx) error { return repairSchema(ctx, tx, d, repairs) }
	return goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil)
}

// repairSchema adds everything that the last texts of the migrations create and earlier texts did not. It changes
// nothing on a database that was created with the last texts.
func repairSchema(ctx context.Context, tx *sql.Tx, d *dialect, repairs []repair) error {
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

// repair runs texts unless good accepts the columns of a table or an index.
type repair struct {
	name  func(*dialect) string
	good  func(columns []string) bool
	texts []string
}

// repairs bring databases with early texts of 00002 and 00003 to the last texts.
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
	// The copy is made before the table is created again, so that the new primary key gets the usual name.
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

// hostRepairs bring databases with the early text of 00007 to the last text.
var hostRepairs = []repair{
	{named("hosts"), present, []string{`
		create table hosts (
			name          text primary key,
			advertise_url text not null,
			started_at    timestamptz not null,
			seen_at       timestamptz not null,
			forgotten_at  timestamptz
		)`,
	}},
	{named("sandboxes_host"), present, []string{`create index sandboxes_host on sandboxes (host, id) where host <> ''`}},
	{named("sandboxes"), has("left_incarnation"), []string{`alter table sandboxes add column left_incarnation bigint not null default 0`}},
}

func named(name string) func(*dialect) string { return func(*dialect) string { return name } }

func has(column string) func([]string) bool {
	return func(columns []string) bool { return slices.Contains(columns, column) }
}

func present(columns []string) bool { return len(columns) > 0 }

func absent(columns []string) bool { return len(columns) == 0 }

// messagesKey returns the name of the primary key's index on messages.
func messagesKey(d *dialect) string {
	if d == sqliteDialect {
		return "sqlite_autoindex_messages_1"
	}
	return "messages_pkey"
}

// columnsOf returns the columns of a table or an index, or none if it does not exist.
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
