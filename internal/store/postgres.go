package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// No statement keeps state in a session, so that a transaction pooler may be used. A pooler without prepared
// statements needs default_query_exec_mode=exec in the URL.
var postgresDialect = &dialect{
	name:     "postgres",
	goose:    goose.DialectPostgres,
	migrated: "select to_regclass('" + versionTable + "') is not null",
	columns:  "select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
	// The arrival time of the statement: stable, so that indexes are used, and never later than the moment a row is
	// compared with it, so that no lease looks expired too early.
	now:        "statement_timestamp()",
	micros:     "cast(%s as double precision) * interval '1 microsecond'",
	skipLocked: "for update skip locked",
	oldestTx:   "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
	// The lock is held until the statement ends.
	gate: "(select pg_advisory_xact_lock(%s)) as gate",

	unavailable: postgresUnavailable,
	duplicate:   func(err error) bool { return sqlState(err) == "23505" },
	overQuota:   func(err error) bool { return sqlState(err) == "23514" },
	dangling:    func(err error) bool { return sqlState(err) == "23503" },

	apply:       applyPostgres,
	lockSchema:  lockSchemaPostgres,
	mayMigrate:  mayMigratePostgres,
	takeSandbox: takeSandboxPostgres,
	reserve:     reservePostgres,
	free:        freePostgres,
	appendTurns: appendTurnsPostgres,
}

const (
	connectTimeout  = 15 * time.Second
	defaultMaxConns = 20
)

func openPostgres(ctx context.Context, opts Options) (*DB, error) {
	config, err := pgx.ParseConfig(opts.DatabaseURL)
	if err != nil {
		return nil, badURL("is not a PostgreSQL URL")
	}
	conns, err := takeMaxConns(config)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "berth"
	}
	p := &pool{DB: stdlib.OpenDB(*config), dialect: postgresDialect}
	p.SetMaxOpenConns(conns)
	p.SetMaxIdleConns(conns)
	p.SetConnMaxIdleTime(5 * time.Minute)
	p.SetConnMaxLifetime(time.Hour)
	if err := p.PingContext(ctx); err != nil {
		_ = p.Close()
		return nil, connectProblem(config, err)
	}
	return &DB{dialect: postgresDialect, write: p, read: p}, nil
}

// badURL returns an error without any part of the URL or of the parser's message: both may contain the password.
func badURL(what string) error {
	e := fault.Errorf("open database", api.CodeInvalidConfig, "the database URL %s", what)
	e.Hint = "Write postgres://user:password@host:5432/name, with special characters of the password percent-encoded, or leave it empty for SQLite."
	return e
}

// takeMaxConns removes pool_max_conns from the URL's parameters and returns it. The PostgreSQL server does not know
// this parameter.
func takeMaxConns(config *pgx.ConnConfig) (int, error) {
	const name = "pool_max_conns"
	given, ok := config.RuntimeParams[name]
	if !ok {
		return defaultMaxConns, nil
	}
	delete(config.RuntimeParams, name)
	n, err := strconv.Atoi(given)
	if err != nil || n < 2 {
		return 0, badURL("has a pool_max_conns that is not a number from 2 up")
	}
	return n, nil
}

// schemaLock is the number of the advisory lock for migrations: "berth" in ASCII.
const schemaLock = 0x6265727468

// lockSchemaPostgres holds the lock in a separate transaction. A transaction pooler keeps a transaction on one
// connection, but could leave a session lock behind. If the connection breaks, two migrations may run at once. The
// second one fails because the objects of the first exist.
func lockSchemaPostgres(ctx context.Context, db *DB, f func() error) error {
	return db.inTx(ctx, func(tx *txn) error {
		if _, err := tx.exec(ctx, `select pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}
		return f()
	})
}

func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// postgresUnavailable reports whether the server cannot answer at present. It checks the class of the server's error,
// or how the connection failed.
func postgresUnavailable(err error) bool {
	state := sqlState(err)
	switch {
	case state == "":
		return connectionLost(err)
	case strings.HasPrefix(state, "08"), // connection exceptions
		strings.HasPrefix(state, "53"),     // out of disk, memory or connections
		strings.HasPrefix(state, "57P"),    // shutting down, crashed, starting up
		strings.HasPrefix(state, "58"),     // errors of the server's operating system
		state == "25006",                   // read only: a replica after a failover
		state == "57014",                   // cancelled by the server's time limit
		state == "40001", state == "40P01", // rolled back because of a conflict or a deadlock
		state == "55P03": // lock not available in time
		return true
	}
	return false
}
