package store

import (
	"context"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/sandbox"
)

// MigrateTo brings the schema to an earlier version than the newest.
func MigrateTo(ctx context.Context, opts Options, version int64) error {
	db, err := connect(ctx, opts)
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := db.migrator().migrations()
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}

// CodedMigrations returns the texts of the migrations that are Go code, by name and engine.
func CodedMigrations() map[string]string {
	texts := map[string]string{}
	for engine, d := range map[string]*dialect{"sqlite": sqliteDialect, "postgres": postgresDialect} {
		texts[conversationViewName+"."+engine] = d.conversationView()
		texts[changeLogName+"."+engine] = strings.Join(d.changeLogSchema(), ";\n")
	}
	return texts
}

// CheckFilesFor changes how long opening waits for the check of a file, until the test ends.
func CheckFilesFor(t interface{ Cleanup(func()) }, d time.Duration) {
	before := checkWithin
	checkWithin = d
	t.Cleanup(func() { checkWithin = before })
}

// Explain returns how the database reads a page of sandboxes.
func (s Scope) Explain(ctx context.Context, f Filter, page Page) (string, error) {
	l := s.sandboxes(f)
	text, args := l.text(page)
	return s.db.Explain(ctx, text, args...)
}

// ExplainIdle returns how the database finds idle sandboxes.
func (s Scope) ExplainIdle(ctx context.Context, kind sandbox.OwnerKind, idle time.Duration, limit int) (string, error) {
	return s.db.Explain(ctx, selectIdle, s.tenant, kind, idle.Microseconds(), limit)
}

// ExplainPlaced returns how the database finds what is placed.
func (db *DB) ExplainPlaced(ctx context.Context, driver, host, after string, limit int) (string, error) {
	return db.Explain(ctx, selectInstances, driver, host, after, limit)
}

// Explain returns how the database runs a query.
func (db *DB) Explain(ctx context.Context, text string, args ...any) (string, error) {
	word, detail := "explain ", 0
	if db.dialect == sqliteDialect {
		word, detail = "explain query plan ", 3
	}
	rows, err := db.read.query(ctx, word+text, args...)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		columns := make([]any, detail+1)
		for i := range columns {
			columns[i] = new(any)
		}
		if err := rows.Scan(columns...); err != nil {
			return "", err
		}
		line, _ := (*columns[detail].(*any)).(string)
		plan.WriteString(line + "\n")
	}
	return plan.String(), rows.Err()
}
