package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// DefaultLeaseTTL is how long a lease lives unless it is renewed.
const DefaultLeaseTTL = 15 * time.Second

// Options says which database to open and how.
type Options struct {
	DataDir     string        // where SQLite lives, under a lock that keeps a second server out
	DatabaseURL string        // PostgreSQL; empty means SQLite in DataDir
	LeaseTTL    time.Duration // zero means DefaultLeaseTTL
	SkipMigrate bool          // refuse an older schema instead of bringing it up to date
	Logger      *slog.Logger  // nil means slog.Default
}

// DB is an open database. Its methods may be called from many goroutines.
type DB struct {
	dialect *dialect
	write   *pool
	read    *pool        // the same as write, but for SQLite
	checks  *checkpoints // of SQLite; else nil
	file    *fileCheck   // of SQLite; else nil
	health  health
	lock    *dirLock
	ttl     time.Duration
	log     *slog.Logger
}

// Open opens the database, brings its schema up to date under a lock, and checks that it answers. A
// database that is down, locked by another server or written by a newer Berth is an error that says
// what to do about it.
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
		err = db.checkSchema(ctx)
	} else {
		_, err = db.migrate(ctx)
	}
	if err != nil || db.lock == nil {
		return err
	}
	if err := db.endLeases(ctx); err != nil {
		return db.fail("end leases of the past", err)
	}
	db.keepRoom()
	return nil
}

// connect opens the database as it is, whatever its schema.
func connect(ctx context.Context, opts Options) (*DB, error) {
	open := openPostgres
	if opts.DatabaseURL == "" {
		open = openSQLite
	}
	db, err := open(ctx, opts)
	if err != nil {
		return nil, err
	}
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

// Close waits for running statements, closes the database and frees the data directory.
func (db *DB) Close() error {
	if db.checks != nil {
		db.checks.close()
	}
	if db.file != nil {
		db.file.close()
	}
	err := db.write.Close()
	if db.read != db.write {
		err = errors.Join(err, db.read.Close())
	}
	if db.lock != nil {
		err = errors.Join(err, db.lock.release())
	}
	return db.fail("close store", err)
}

// Ping asks the database whether it answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.fail("reach database", db.read.PingContext(ctx))
}

// Engine is "sqlite" or "postgres".
func (db *DB) Engine() string { return db.dialect.name }

// LeaseTTL is how long a lease of this store lives unless it is renewed.
func (db *DB) LeaseTTL() time.Duration { return db.ttl }

// NewID makes an id: a UUIDv7 in lower case.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }
