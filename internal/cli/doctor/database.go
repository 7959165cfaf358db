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

	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func database(ctx context.Context, s Subject) finding {
	if s.Config.DatabaseURL == "" {
		return sqliteIn(ctx, s.Config.DataDir)
	}
	return postgresAt(ctx, s.Config.DatabaseURL.Reveal())
}

// sqliteIn opens the file if there is one and nobody has it: opening would make one, and a running
// server answers for its own.
func sqliteIn(ctx context.Context, dir string) finding {
	path := filepath.Join(dir, sqliteFile)
	if _, err := os.Stat(path); err != nil {
		return fine("SQLite; %s does not exist yet, the server makes it", path)
	}
	if _, held := lockHolder(dir); held {
		return fine("SQLite; the running server has it open, its own word is under port")
	}
	return schemaOf(ctx, "SQLite", store.Options{DataDir: dir})
}

// schemaOf compares the database's schema with ours.
func schemaOf(ctx context.Context, engine string, opts store.Options) finding {
	opts.Logger = slog.New(slog.DiscardHandler)
	schema, err := store.Status(ctx, opts)
	if err != nil {
		return fail(hintOf(err), "%s: %v", engine, err)
	}
	return judgeSchema(engine, schema)
}

func judgeSchema(engine string, schema store.Schema) finding {
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
	var e *sandbox.Error
	switch {
	case !errors.As(err, &e):
		return "look at the database's own log"
	case e.Hint != "":
		return e.Hint
	}
	return e.Code.Info().Hint
}

const (
	leastPostgres = 12
	// Leases are judged by PostgreSQL's clock alone; what people read in lists mixes both.
	mostDrift = 2 * time.Second
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

// postgres is what the server says of itself.
type postgres struct {
	version int // such as 150018
	release string
	drift   time.Duration // how far its clock is ahead of ours, to half a round trip
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
	case pg.version/10000 < leastPostgres:
		return fail(fmt.Sprintf("upgrade it to %d or newer", leastPostgres), "PostgreSQL %s is older than %d", pg.release, leastPostgres)
	case pg.drift.Abs() > mostDrift:
		return warn("let a time service such as systemd-timesyncd keep both clocks",
			"PostgreSQL's clock differs from this machine's by %s", pg.drift.Round(time.Millisecond))
	}
	return fine("release %s, its clock differs from ours by %s", pg.release, pg.drift.Abs().Round(time.Millisecond))
}
