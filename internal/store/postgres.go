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
	"github.com/berthdev/berth/internal/sandbox"
)

// Nothing here keeps state in a session, so that a transaction pooler may stand between. One that
// does not know prepared statements needs default_query_exec_mode=exec in the URL.
var postgresDialect = &dialect{
	name:     "postgres",
	goose:    goose.DialectPostgres,
	migrated: "select to_regclass('" + versionTable + "') is not null",
	columns:  "select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
	// The time a statement arrived: stable, so that indexes serve it, and never later than the
	// moment a row is judged by it, so that no lease looks expired before it is.
	now:        "statement_timestamp()",
	micros:     "cast(%s as double precision) * interval '1 microsecond'",
	skipLocked: "for update skip locked",
	// The lock lives as long as the one statement it is taken in.
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

// badURL repeats nothing of the URL or of the parser's words: either may hold the password.
func badURL(what string) error {
	e := sandbox.Errorf("open database", api.CodeInvalidConfig, "the database URL %s", what)
	e.Hint = "Write postgres://user:password@host:5432/name, with special characters of the password percent-encoded, or leave it empty for SQLite."
	return e
}

// takeMaxConns reads pool_max_conns of the URL, which is for us and not for the server.
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

// schemaLock is the advisory lock that migrations run under: "berth" in ASCII.
const schemaLock = 0x6265727468

// lockSchemaPostgres holds the lock in a transaction of its own, which a transaction pooler keeps on
// one connection; a session's lock could be left behind there. Should the connection break, two
// migrations may run at once, and the loser's transaction fails on what the winner made.
func lockSchemaPostgres(ctx context.Context, db *DB, f func() error) error {
	return db.atomically(ctx, func(tx *txn) error {
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

// postgresUnavailable looks at the class of the server's error, or at how the connection failed.
func postgresUnavailable(err error) bool {
	state := sqlState(err)
	switch {
	case state == "":
		return connectionLost(err)
	case strings.HasPrefix(state, "08"), // connection exceptions
		strings.HasPrefix(state, "53"),     // out of disk, memory or connections
		strings.HasPrefix(state, "57P"),    // shutting down, crashed, starting up
		strings.HasPrefix(state, "58"),     // the system under the server
		state == "25006",                   // read only: a replica after a failover
		state == "57014",                   // cancelled, by a time limit of the server's
		state == "40001", state == "40P01", // rolled back in favour of another
		state == "55P03": // lock not available in time
		return true
	}
	return false
}
