package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit/pgtest"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql drivers for fill
	_ "modernc.org/sqlite"
)

const tenant store.TenantID = "bench"

// places holds the locations of the databases for benchmarks.
type places struct {
	sizes
	dir  string                                            // parent of the data directories
	url  func(name string) string                          // returns the URL of a PostgreSQL database
	exec func(ctx context.Context, statement string) error // runs a statement in PostgreSQL
}

// storeFigures prints the figures of frequent database queries.
func storeFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	p, done, err := prepare(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	for _, bench := range []func(context.Context, places) ([]figure, error){resolve, lists} {
		figures, err := bench(ctx, p)
		if err != nil {
			return err
		}
		for _, f := range figures {
			if err := print(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// engineFigures prints the figures of frequent work of servers. Each server is a separate process.
func engineFigures(ctx context.Context, size sizes, print func(figure) error) (err error) {
	p, done, err := prepare(ctx, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := ensure(ctx, p, print); err != nil {
		return err
	}
	return watch(ctx, p, print)
}

// prepare makes a folder and starts a PostgreSQL server whose commits wait for the disk, as in production. The function
// done removes both.
func prepare(ctx context.Context, size sizes) (p places, done func() error, err error) {
	p.sizes = size
	p.dir, err = os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return p, nil, err
	}
	cluster, err := pgtest.Start(ctx, pgtest.Options{Durable: true})
	if err != nil {
		return p, nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	p.url, p.exec = cluster.URL, cluster.Exec
	return p, func() error { return errors.Join(cluster.Close(), os.RemoveAll(p.dir)) }, nil
}

// open makes a database of the engine (sqlite or postgres) and fills it with sandboxes of one tenant.
func (p places) open(ctx context.Context, engine, name string, rows int) (*store.DB, error) {
	opts := store.Options{DataDir: filepath.Join(p.dir, name)}
	raw, source := "sqlite", filepath.Join(opts.DataDir, "berth.db")
	if engine == "postgres" {
		if err := p.exec(ctx, "create database "+name); err != nil {
			return nil, err
		}
		opts, raw, source = store.Options{DatabaseURL: p.url(name)}, "pgx", p.url(name)
	}
	db, err := store.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := db.Tenants().Ensure(ctx, tenant, "Bench"); err != nil {
		return nil, err
	}
	return db, fill(ctx, raw, source, fillSandboxes(engine, rows), "analyze")
}

// fill runs SQL statements on a database.
func fill(ctx context.Context, driver, source string, statements ...string) error {
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// series returns two pieces of SQL for the engine: a table n(i) with the numbers from 1 to rows, and an expression that
// converts i to a time.
func series(engine string, rows int) (from, at string) {
	if engine == "postgres" {
		return fmt.Sprintf("generate_series(1, %d) as n(i)", rows), "to_timestamp(i)"
	}
	return fmt.Sprintf("(with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) select i from n)", rows), "i * 1000000"
}

// fillSandboxes returns SQL that inserts running sandboxes of the projects owner-1, owner-2 and so on.
func fillSandboxes(engine string, rows int) string {
	from, at := series(engine, rows)
	return fmt.Sprintf(`
		insert into sandboxes (id, tenant, owner_kind, owner_id, name, template, driver, profile, env, metadata, host,
			state, want, generation, incarnation, instance, synced_version, synced_incarnation, changes, created_at, active_at)
		select 'id-' || i, '%s', 'project', 'owner-' || i, '', 'default', 'fake', 'standard', '{}', '{}', '',
			'running', 'running', 1, 1, 'instance-' || i, '', 0, 1, %s, %s from %s`, tenant, at, at, from)
}
