package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

func database(ctx context.Context, s Subject) finding {
	if s.Config.DatabaseURL == "" {
		return sqliteIn(ctx, s.Config.DataDir)
	}
	return postgresAt(ctx, s.Config.DatabaseURL.Reveal())
}

// sqliteIn checks the SQLite database. It does not open a missing file, because that would create it, or a database
// that a server uses, because that server has checked it.
func sqliteIn(ctx context.Context, dir string) finding {
	path := filepath.Join(dir, sqliteFile)
	if _, err := os.Stat(path); err != nil {
		return fine("SQLite; %s does not exist yet, the server makes it", path)
	}
	if _, held := lockHolder(dir); held {
		return fine("SQLite; the running server has it open, so its contents are not checked here")
	}
	return schemaOf(ctx, "SQLite", store.Options{DataDir: dir})
}

// schemaOf compares the database's schema with the schema of this binary.
func schemaOf(ctx context.Context, engine string, opts store.Options) finding {
	opts.Logger = slog.New(slog.DiscardHandler)
	schema, err := store.Status(ctx, opts)
	if err != nil {
		return fail(hintOf(err), "%s: %v", engine, err)
	}
	return schemaFinding(engine, schema)
}

func schemaFinding(engine string, schema store.Schema) finding {
	switch {
	case schema.Unchecked:
		return warn("stop the server and run: sqlite3 "+sqliteFile+" 'pragma integrity_check'",
			"%s has schema version %d; the file is too large to be checked for damage here", engine, schema.Current)
	case schema.Current > schema.Target:
		return fail("run a Berth at least as new as the one that wrote it", "%s has schema version %d, this Berth knows up to %d", engine, schema.Current, schema.Target)
	case schema.Current < schema.Target:
		return fine("%s has schema version %d; the server brings it to %d at its start", engine, schema.Current, schema.Target)
	}
	return fine("%s, schema version %d", engine, schema.Current)
}

func hintOf(err error) string {
	var e *fault.Error
	switch {
	case !errors.As(err, &e):
		return "look at the database's own log"
	case e.Hint != "":
		return e.Hint
	}
	return e.Code.Info().Hint
}

const (
	minPostgres = 12
	// Leases depend on PostgreSQL's clock alone, but lists show times of both clocks.
	maxDrift = 2 * time.Second
)

func postgresAt(ctx context.Context, url string) finding {
	schema := schemaOf(ctx, "PostgreSQL", store.Options{DatabaseURL: url})
	if schema.status != OK {
		return schema
	}
	pg, err := askPostgres(ctx, url)
	if err != nil {
		return fail("look at the database's own log", "PostgreSQL: %v", err)
	}
	found := pg.judge()
	if found.status == OK {
		found.detail = schema.detail + "; " + found.detail
	}
	return found
}

// postgres describes a PostgreSQL server.
type postgres struct {
	version int // such as 150018
	release string
	drift   time.Duration // how far its clock is ahead of this machine's; exact to half a round trip
}

func askPostgres(ctx context.Context, url string) (pg postgres, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return pg, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var clock time.Time
	start := time.Now()
	err = conn.QueryRow(ctx, `select cast(current_setting('server_version_num') as int), current_setting('server_version'), clock_timestamp()`).
		Scan(&pg.version, &pg.release, &clock)
	end := time.Now()
	pg.drift = clock.Sub(start.Add(end.Sub(start) / 2))
	return pg, err
}

func (pg postgres) judge() finding {
	switch {
	case pg.version/10000 < minPostgres:
		return fail(fmt.Sprintf("upgrade it to %d or newer", minPostgres), "PostgreSQL %s is older than %d", pg.release, minPostgres)
	case pg.drift.Abs() > maxDrift:
		return warn("let a time service such as systemd-timesyncd keep both clocks",
			"PostgreSQL's clock differs from this machine's by %s", pg.drift.Round(time.Millisecond))
	}
	return fine("release %s, its clock differs from ours by %s", pg.release, pg.drift.Abs().Round(time.Millisecond))
}
