package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Migrations go forward only, and each leaves a schema that the Berth before it can still work on:
// replicas are upgraded one after the other.
//
//go:embed migrations/*.sql
var embedded embed.FS

const versionTable = "goose_db_version"

// Schema is where a database's schema stands.
type Schema struct {
	Current int64    // the version it has, 0 before the first migration
	Target  int64    // the version this Berth works with
	Applied []string // the migrations applied just now, in order
}

// UpToDate reports whether there is nothing to migrate.
func (s Schema) UpToDate() bool { return s.Current == s.Target }

// Migrate brings the schema up to date and says what it did. It takes the same locks as [Open].
func Migrate(ctx context.Context, opts Options) (Schema, error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return Schema{}, err
	}
	defer db.Close()
	return db.migrate(ctx)
}

// Status says where the schema stands and changes nothing in the database. That it is behind and
// cannot be migrated is an error.
func Status(ctx context.Context, opts Options) (Schema, error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return Schema{}, err
	}
	defer db.Close()
	schema, err := db.Schema(ctx)
	if err == nil && schema.Current < schema.Target {
		err = db.mayMigrate(ctx)
	}
	return schema, err
}

func (db *DB) mayMigrate(ctx context.Context) error {
	return db.fail("migrate schema", db.dialect.mayMigrate(ctx, db))
}

// Schema says where the schema stands.
func (db *DB) Schema(ctx context.Context) (Schema, error) {
	const op = "read schema version"
	provider, err := db.migrations()
	if err != nil {
		return Schema{}, db.fail(op, err)
	}
	sources := provider.ListSources()
	s := Schema{Target: sources[len(sources)-1].Version}
	s.Current, err = db.schemaVersion(ctx)
	return s, db.fail(op, err)
}

// schemaVersion reads goose's table, if it is there; goose itself would make it.
func (db *DB) schemaVersion(ctx context.Context) (int64, error) {
	if migrated, err := first(ctx, db.write, scanOne[bool], db.dialect.migrated); err != nil || !migrated {
		return 0, err
	}
	return first(ctx, db.write, scanOne[int64], `select coalesce(max(version_id), 0) from `+versionTable)
}

func (db *DB) migrations() (*goose.Provider, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(db.dialect.goose, db.write.DB, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(db.log))
}

func (db *DB) migrate(ctx context.Context) (after Schema, err error) {
	before, err := db.Schema(ctx)
	if err != nil || before.UpToDate() {
		return before, err
	}
	err = db.dialect.lockSchema(ctx, db, func() error {
		after, err = db.migrateLocked(ctx)
		return err
	})
	return after, db.fail("migrate schema", err)
}

// Alone runs f while no other process runs its own, or migrates this database.
func (db *DB) Alone(ctx context.Context, f func() error) error {
	return db.fail("wait for other servers", db.dialect.lockSchema(ctx, db, f))
}

func (db *DB) migrateLocked(ctx context.Context) (Schema, error) {
	schema, err := db.Schema(ctx)
	switch {
	case err != nil || schema.UpToDate():
		return schema, err
	case schema.Current > schema.Target:
		return schema, tooNew(schema)
	}
	if err := db.mayMigrate(ctx); err != nil {
		return schema, err
	}
	provider, err := db.migrations()
	if err != nil {
		return schema, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return schema, fmt.Errorf("migrate from version %d to %d: %w", schema.Current, schema.Target, err)
	}
	for _, r := range results {
		schema.Applied = append(schema.Applied, r.Source.Path)
	}
	schema.Current = schema.Target
	return schema, nil
}

// checkSchema refuses every version but the one this Berth works with.
func (db *DB) checkSchema(ctx context.Context) error {
	schema, err := db.Schema(ctx)
	switch {
	case err != nil || schema.UpToDate():
		return err
	case schema.Current > schema.Target:
		return tooNew(schema)
	}
	e := sandbox.Errorf("check schema", api.CodeInvalidConfig, "the database has schema version %d, this Berth needs %d", schema.Current, schema.Target)
	e.Hint = "Run 'berth migrate'."
	return e
}

func tooNew(s Schema) error {
	return sandbox.Errorf("check schema", api.CodeSchemaTooNew, "the database has schema version %d, this Berth knows versions up to %d", s.Current, s.Target)
}
