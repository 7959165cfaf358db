package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Migrations go forward only, and each leaves a schema that the Berth before it can still work on:
// replicas are upgraded one after the other. A migration that shipped is never edited; migrations/SHA256SUMS
// has the digest of each.
//
//go:embed migrations/*.sql
var embedded embed.FS

const versionTable = "goose_db_version"

// Schema is where a database's schema stands.
type Schema struct {
	Current int64    // the version it has, 0 before the first migration
	Target  int64    // the version this Berth works with
	Missing []int64  // migrations up to Target that were not applied, in order
	Applied []string // the migrations applied just now, in order

	Unchecked bool // SQLite's file is so large that its check for damage was not finished
}

// UpToDate reports whether there is nothing to migrate.
func (s Schema) UpToDate() bool { return s.Current == s.Target && len(s.Missing) == 0 }

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
	if err == nil && len(schema.Missing) > 0 {
		err = db.mayMigrate(ctx)
	}
	schema.Unchecked = db.file != nil && db.file.underWay()
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
	applied, err := db.appliedVersions(ctx)
	if err != nil {
		return Schema{}, db.fail(op, err)
	}
	var s Schema
	for _, source := range provider.ListSources() {
		s.Target = max(s.Target, source.Version)
		if !slices.Contains(applied, source.Version) {
			s.Missing = append(s.Missing, source.Version)
		}
	}
	for _, version := range applied {
		s.Current = max(s.Current, version)
	}
	return s, nil
}

// appliedVersions reads goose's table, if it exists; goose itself would create it.
func (db *DB) appliedVersions(ctx context.Context) ([]int64, error) {
	if migrated, err := first(ctx, db.write, scanOne[bool], db.dialect.migrated); err != nil || !migrated {
		return nil, err
	}
	return all(ctx, db.write, scanOne[int64], `select version_id from `+versionTable+` where is_applied`)
}

func (db *DB) migrations() (*goose.Provider, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(db.dialect.goose, db.write.DB, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(db.log),
		goose.WithGoMigrations(db.dialect.repairMigration(), db.dialect.conversationViewMigration()),
		goose.WithAllowOutofOrder(true)) // a commit may have shipped 7 before another added 6
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
	if schema.Current == 3 {
		if err := db.adoptTurnLog(ctx); err != nil {
			return schema, db.migrationFailed(schema, err)
		}
	}
	provider, err := db.migrations()
	if err != nil {
		return schema, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return schema, db.migrationFailed(schema, err)
	}
	for _, r := range results {
		name := r.Source.Path
		switch r.Source.Version {
		case repairVersion:
			name = repairName
		case conversationViewVersion:
			name = conversationViewName
		}
		schema.Applied = append(schema.Applied, name)
	}
	schema.Current, schema.Missing = schema.Target, nil
	return schema, nil
}

// migrationFailed names the migration that failed, where the schema stands and what to do. A migration is one
// transaction: the database is as the last one that succeeded left it.
func (db *DB) migrationFailed(before Schema, err error) error {
	var partial *goose.PartialError
	at, what, cause := before.Current, "", err
	if errors.As(err, &partial) {
		for _, r := range partial.Applied {
			at = max(at, r.Source.Version)
		}
		what, cause = fmt.Sprintf(": migration %d", partial.Failed.Source.Version), partial.Err
	}
	e := sandbox.Errorf("migrate schema", db.codeOf(err), "migrate %s from version %d to %d%s: %w",
		db.dialect.name, before.Current, before.Target, what, cause)
	if e.Code == api.CodeStoreUnavailable || e.Code == api.CodeServerDiskFull {
		e.Hint = fmt.Sprintf("The database could not be reached or written while it was at schema version %d. Nothing is lost: correct that and run 'berth migrate' again.", at)
		return e
	}
	e.Hint = fmt.Sprintf("The failed migration was rolled back and the database is unchanged at schema version %d: the Berth that used it before still works on it. "+
		"Back it up, look at its schema with 'berth doctor', correct what the error names and run 'berth migrate' again; or restore a backup.", at)
	return e
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
	e := sandbox.Errorf("check schema", api.CodeInvalidConfig, "the database has schema version %d, this Berth needs %d (%d migrations to apply)", schema.Current, schema.Target, len(schema.Missing))
	e.Hint = "Back up the database, then run 'berth migrate'."
	return e
}

func tooNew(s Schema) error {
	e := sandbox.Errorf("check schema", api.CodeSchemaTooNew, "the database has schema version %d, this Berth knows versions up to %d", s.Current, s.Target)
	e.Hint = tooNewHint
	return e
}

const tooNewHint = "A newer Berth has migrated the database. Run a Berth at least as new, or restore the backup made before the upgrade ('berth migrate' only goes forward)."
