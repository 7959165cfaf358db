// Package store keeps Berth's records in SQLite (embedded, one server per data directory) or PostgreSQL (any number
// of replicas), with one SQL text for both.
//
// [Open] opens and migrates a database. Records of a tenant are reached through [DB.In], so that code which forgets
// the tenant does not compile: sandboxes ([Scope.RequestSandbox], [Scope.Want], [Scope.Delete], [Scope.ByOwner]),
// accounts, agents, API keys, idempotency keys ([Requests.Claim]), turns and messages. Each kind of record has a type of
// its methods, such as [Scope.Turns]. Operations across tenants start at [DB]: [DB.Commit], [DB.Due], [DB.Leases],
// [DB.Holds], [DB.Hosts], [DB.TurnRuns].
//
// Requests set Want with single statements that never block a lease holder. Only the holder writes state, and only
// while the row has its lease's epoch: a holder that lost its lease gets [fault.ErrStale]. No transaction stays
// open during other work.
//
// Times that the store sets, and all expiries, use the database's clock: PostgreSQL's, or the process's for SQLite.
// All returned errors are [fault.Error]s.
package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// DefaultLeaseTTL is the lifetime of a lease unless it is renewed.
const DefaultLeaseTTL = 15 * time.Second

// Options configure the database to open.
type Options struct {
	DataDir     string        // directory of SQLite's file, locked against a second server
	DatabaseURL string        // PostgreSQL; empty means SQLite in DataDir
	LeaseTTL    time.Duration // zero means DefaultLeaseTTL
	SkipMigrate bool          // refuse an older schema instead of migrating it
	Logger      *slog.Logger  // nil means slog.Default
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect *dialect
	write   *pool
	read    *pool        // the same as write, except for SQLite
	checks  *checkpoints // SQLite only
	file    *fileCheck   // SQLite only
	health  health
	secrets Secrets
	lock    *dirLock
	ttl     time.Duration
	log     *slog.Logger
}

// Open opens the database, migrates its schema under a lock and checks that it answers. If the database is down,
// locked by another server or written by a newer Berth, the error says what to do.
func Open(ctx context.Context, opts Options) (*DB, error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := db.prepare(ctx, opts.SkipMigrate); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func (db *DB) prepare(ctx context.Context, skipMigrate bool) (err error) {
	if skipMigrate {
		err = db.migrator().check(ctx)
	} else {
		_, err = db.migrator().migrate(ctx)
	}
	if err != nil || db.lock == nil {
		return err
	}
	if err := db.Leases().endAll(ctx); err != nil {
		return db.fail("end leases of the past", err)
	}
	db.keepRoom()
	return nil
}

// connect opens the database without checking its schema.
func connect(ctx context.Context, opts Options) (*DB, error) {
	open := openPostgres
	if opts.DatabaseURL == "" {
		open = openSQLite
	}
	db, err := open(ctx, opts)
	if err != nil {
		return nil, err
	}
	db.secrets.db = db
	if db.ttl = opts.LeaseTTL; db.ttl <= 0 {
		db.ttl = DefaultLeaseTTL
	}
	if db.log = opts.Logger; db.log == nil {
		db.log = slog.Default()
	}
	if db.file != nil {
		if err := db.checkFile(ctx); err != nil {
			_ = db.Close()
			return nil, db.fail("check database", err)
		}
	}
	return db, nil
}

// Secrets returns the state of encryption in this server.
func (db *DB) Secrets() *Secrets { return &db.secrets }

// Close waits for running statements, closes the database and frees the data directory.
func (db *DB) Close() error {
	if db.checks != nil {
		db.checks.close()
	}
	if db.file != nil {
		db.file.close()
	}
	db.Secrets().leave()
	err := db.write.Close()
	if db.read != db.write {
		err = errors.Join(err, db.read.Close())
	}
	if db.lock != nil {
		err = errors.Join(err, db.lock.release())
	}
	return db.fail("close store", err)
}

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.fail("reach database", db.read.PingContext(ctx))
}

// Engine returns "sqlite" or "postgres".
func (db *DB) Engine() string { return db.dialect.name }

// LeaseTTL returns the lifetime of this store's leases.
func (db *DB) LeaseTTL() time.Duration { return db.ttl }

// NewID returns a new id: a UUIDv7 in lower case.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }
