package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Migrations go forward only. Each leaves a schema that the previous version of Berth can still work on, because
// replicas are upgraded one after the other. A migration that was released is never edited; migrations/SHA256SUMS has
// the digest of each.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

const versionTable = "goose_db_version"

// Schema is the version of a database's schema.
type Schema struct {
	Current int64    // the applied version, 0 before the first migration
	Target  int64    // the version this Berth works with
	Missing []int64  // migrations up to Target that were not applied, in order
	Applied []string // the migrations applied by this call, in order

	Unchecked bool // SQLite's file is so large that its check for damage was not finished
}

// UpToDate reports whether there is nothing to migrate.
func (s Schema) UpToDate() bool { return s.Current == s.Target && len(s.Missing) == 0 }

// Migrate brings the schema up to date and returns the applied migrations. It takes the same locks as [Open].
func Migrate(ctx context.Context, opts Options) (Schema, error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return Schema{}, err
	}
	defer db.Close()
	return db.migrator().migrate(ctx)
}

// Status returns the schema's version and changes nothing in the database. It returns an error if the schema is
// behind and cannot be migrated.
func Status(ctx context.Context, opts Options) (Schema, error) {
	db, err := connect(ctx, opts)
	if err != nil {
		return Schema{}, err
	}
	defer db.Close()
	schema, err := db.Schema(ctx)
	if err == nil && len(schema.Missing) > 0 {
		err = db.migrator().mayMigrate(ctx)
	}
	schema.Unchecked = db.file != nil && db.file.underWay()
	return schema, err
}

// migrator migrates the schema of a database and compares it with the schema that this Berth works with.
type migrator struct{ db *DB }

func (db *DB) migrator() migrator { return migrator{db} }

func (m migrator) mayMigrate(ctx context.Context) error {
	return m.db.fail("migrate schema", m.db.dialect.mayMigrate(ctx, m.db))
}

// Schema returns the version of the schema.
func (db *DB) Schema(ctx context.Context) (Schema, error) {
	const op = "read schema version"
	provider, err := db.migrator().migrations()
	if err != nil {
		return Schema{}, db.fail(op, err)
	}
	applied, err := db.migrator().appliedVersions(ctx)
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

// appliedVersions reads goose's table, if it exists. goose itself would create the table.
func (m migrator) appliedVersions(ctx context.Context) ([]int64, error) {
	if migrated, err := first(ctx, m.db.write, scanOne[bool], m.db.dialect.migrated); err != nil || !migrated {
		return nil, err
	}
	return all(ctx, m.db.write, scanOne[int64], `select version_id from `+versionTable+` where is_applied`)
}

func (m migrator) migrations() (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(m.db.dialect.goose, m.db.write.DB, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(m.db.log),
		goose.WithGoMigrations(m.db.dialect.repairMigration(repairVersion, repairs),
			m.db.dialect.repairMigration(repairHostsVersion, hostRepairs), m.db.dialect.conversationViewMigration(), m.db.dialect.changeLogMigration()),
		goose.WithAllowOutofOrder(true)) // a release may have shipped 7 before another branch added 6
}

func (m migrator) migrate(ctx context.Context) (after Schema, err error) {
	before, err := m.db.Schema(ctx)
	if err != nil || before.UpToDate() {
		return before, err
	}
	err = m.db.dialect.lockSchema(ctx, m.db, func() error {
		after, err = m.migrateLocked(ctx)
		return err
	})
	return after, m.db.fail("migrate schema", err)
}

// WithSchemaLock runs f while no other process holds the schema lock, which migrations take too.
func (db *DB) WithSchemaLock(ctx context.Context, f func() error) error {
	return db.fail("wait for other servers", db.dialect.lockSchema(ctx, db, f))
}

func (m migrator) migrateLocked(ctx context.Context) (Schema, error) {
	schema, err := m.db.Schema(ctx)
	switch {
	case err != nil || schema.UpToDate():
		return schema, err
	case schema.Current > schema.Target:
		return schema, tooNew(schema)
	}
	if err := m.mayMigrate(ctx); err != nil {
		return schema, err
	}
	if schema.Current == 3 {
		if err := m.adoptTurnLog(ctx); err != nil {
			return schema, m.migrationFailed(schema, err)
		}
	}
	provider, err := m.migrations()
	if err != nil {
		return schema, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return schema, m.migrationFailed(schema, err)
	}
	for _, r := range results {
		name := r.Source.Path
		switch r.Source.Version {
		case repairVersion, repairHostsVersion:
			name = repairNames[r.Source.Version]
		case conversationViewVersion:
			name = conversationViewName
		case changeLogVersion:
			name = changeLogName
		}
		schema.Applied = append(schema.Applied, name)
	}
	schema.Current, schema.Missing = schema.Target, nil
	return schema, nil
}

// migrationFailed returns an error with the failed migration, the schema's version and a hint. Each migration is one
// transaction, so the database is in the state after the last successful one.
func (m migrator) migrationFailed(before Schema, err error) error {
	var partial *goose.PartialError
	at, what, cause := before.Current, "", err
	if errors.As(err, &partial) {
		for _, r := range partial.Applied {
			at = max(at, r.Source.Version)
		}
		what, cause = fmt.Sprintf(": migration %d", partial.Failed.Source.Version), partial.Err
	}
	var full *sqlite.Error
	if sqlitePrimary(err) == sqlite3.SQLITE_FULL && errors.As(cause, &full) {
		cause = full // without the errors that follow from it
	}
	e := fault.Errorf("migrate schema", m.db.codeOf(err), "migrate %s from version %d to %d%s: %w",
		m.db.dialect.name, before.Current, before.Target, what, cause)
	if e.Code == api.CodeStoreUnavailable || e.Code == api.CodeServerDiskFull {
		e.Hint = fmt.Sprintf("The database could not be reached or written while it was at schema version %d. Nothing is lost: correct that and run 'berth migrate' again.", at)
		return e
	}
	e.Hint = fmt.Sprintf("The failed migration was rolled back and the database is unchanged at schema version %d: the Berth that used it before still works on it. "+
		"Back it up, look at its schema with 'berth doctor', correct what the error names and run 'berth migrate' again; or restore a backup.", at)
	return e
}

// check returns an error unless the schema has the version that this Berth works with.
func (m migrator) check(ctx context.Context) error {
	schema, err := m.db.Schema(ctx)
	switch {
	case err != nil || schema.UpToDate():
		return err
	case schema.Current > schema.Target:
		return tooNew(schema)
	}
	e := fault.Errorf("check schema", api.CodeInvalidConfig, "the database has schema version %d, this Berth needs %d (%d migrations to apply)", schema.Current, schema.Target, len(schema.Missing))
	e.Hint = "Back up the database, then run 'berth migrate'."
	return e
}

func tooNew(s Schema) error {
	e := fault.Errorf("check schema", api.CodeSchemaTooNew, "the database has schema version %d, this Berth knows versions up to %d", s.Current, s.Target)
	e.Hint = tooNewHint
	return e
}

const tooNewHint = "A newer Berth has migrated the database. Run a Berth at least as new, or restore the backup made before the upgrade ('berth migrate' only goes forward)."
