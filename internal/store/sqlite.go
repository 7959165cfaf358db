package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

var sqliteDialect = &dialect{
	name:      "sqlite",
	goose:     goose.DialectSQLite3,
	migrated:  "select exists (select 1 from sqlite_master where name = '" + versionTable + "')",
	columns:   "select name from pragma_table_info($1) union all select name from pragma_index_info($1)",
	now:       "$now",
	micros:    "%s",
	passClock: true,
	oldestTx:  "coalesce((select seq from sqlite_sequence where name = 'change_log'), 0) + 1",
	// One writing connection serializes writers; no gate is needed.
	gate: "(select %s) as gate",

	unavailable: sqliteUnavailable,
	duplicate:   sqliteCode(sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY),
	dangling:    sqliteCode(sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY),
	overQuota:   sqliteCode(sqlite3.SQLITE_CONSTRAINT_CHECK),

	apply: applySQLite,
	// The data directory's lock keeps other processes out.
	lockSchema:  func(_ context.Context, _ *DB, f func() error) error { return f() },
	mayMigrate:  func(context.Context, *DB) error { return nil },
	takeSandbox: takeSandboxSQLite,
	reserve:     reserveSQLite,
	free:        freeSQLite,
	appendTurns: appendTurnsSQLite,
}

// SQLiteFile is the name of SQLite's file in the data directory.
const SQLiteFile = "berth.db"

func openSQLite(ctx context.Context, opts Options) (*DB, error) {
	const op = "open data directory"
	if opts.DataDir == "" {
		return nil, fault.Errorf(op, api.CodeInvalidConfig, "no data directory is given")
	}
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return nil, fault.Errorf(op, api.CodeInvalidConfig, "resolve %s: %w", opts.DataDir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirProblem(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	db, err := openSQLiteFile(ctx, filepath.Join(dir, SQLiteFile))
	if err != nil {
		_ = lock.release()
		return nil, fileProblem(dir, err)
	}
	db.lock = lock
	return db, nil
}

func openSQLiteFile(ctx context.Context, path string) (*DB, error) {
	if err := checkEmptied(path); err != nil {
		return nil, err
	}
	// The file is created here with mode 0600. SQLite gives its other files the same mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	writer, err := sqlitePool(path, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"wal_autocheckpoint(" + strconv.Itoa(walPages) + ")"},
	})
	if err != nil {
		return nil, err
	}
	reader, err := sqlitePool(path, max(4, 2*runtime.GOMAXPROCS(0)), url.Values{"_query_only": {"1"}})
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	writer.cacheStatements, reader.cacheStatements = true, true
	db := &DB{dialect: sqliteDialect, write: writer, read: reader, file: newFileCheck(path)}
	// The ping of the writer turns the write-ahead log on, before any reader opens the file.
	for _, p := range []*pool{writer, reader} {
		if err := p.PingContext(ctx); err != nil {
			return nil, errors.Join(err, writer.Close(), reader.Close())
		}
	}
	db.checks = newCheckpoints(reader)
	return db, nil
}

// sqlitePool opens the file. Every commit waits for the disk (synchronous FULL): acknowledged writes survive a
// power failure, for the price of one fsync each.
func sqlitePool(path string, conns int, more url.Values) (*pool, error) {
	query := url.Values{
		"_journal_mode":        {"WAL"},
		"_synchronous":         {"FULL"},
		"_busy_timeout":        {"2000"}, // only another process can hold the lock
		"_foreign_keys":        {"1"},
		"_dqs":                 {"0"},
		"_time_integer_format": {"unix_micro"},
		"_inttotime":           {"1"},
		"_pragma":              {"cache_size(-16384)"},
	}
	for name, values := range more {
		query[name] = append(query[name], values...)
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &pool{DB: db, dialect: sqliteDialect}, nil
}

// dirProblem returns the error for a data directory that cannot be used, with a hint.
func dirProblem(dir string, err error) error {
	e := fault.Errorf("open data directory", api.CodeInvalidConfig, "%s cannot be used: %w", dir, err)
	if sqlitePrimary(err) == sqlite3.SQLITE_FULL {
		e.Code = api.CodeServerDiskFull
	}
	e.Hint = "The user Berth runs as must be able to write there, and the disk must have room; or choose another directory with --data-dir (BERTH_DATA_DIR)."
	return e
}

// fileProblem returns the error for a database that cannot be opened: a damaged file, or an unusable directory.
func fileProblem(dir string, err error) error {
	if fault.CodeOf(err) == api.CodeDatabaseDamaged {
		return err
	}
	if !sqliteBroken(err) {
		return dirProblem(dir, err)
	}
	path := filepath.Join(dir, SQLiteFile)
	if sqlitePrimary(err) == sqlite3.SQLITE_CORRUPT {
		return damaged(path, err)
	}
	e := fault.Errorf("open database", api.CodeInvalidConfig, "%s is damaged, or no database of Berth's: %w", path, err)
	e.Hint = "Put a backup of " + SQLiteFile + " in its place, or move it and its -wal and -shm files away to begin with an empty one; or choose another directory with --data-dir (BERTH_DATA_DIR)."
	return e
}

func sqliteCode(codes ...int) func(error) bool {
	return func(err error) bool {
		var e *sqlite.Error
		if !errors.As(err, &e) {
			return false
		}
		for _, code := range codes {
			if e.Code() == code {
				return true
			}
		}
		return false
	}
}

// sqlitePrimary returns SQLite's primary result code, the low byte; 0 for other errors.
func sqlitePrimary(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func sqliteBroken(err error) bool {
	code := sqlitePrimary(err)
	return code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT
}

func sqliteUnavailable(err error) bool {
	switch sqlitePrimary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT:
		return true
	}
	return false
}
