package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

const (
	schemaEvery = 2 * time.Second // how often the schema's version is read
	schemaTime  = 5 * time.Second // time limit of one reading
)

// WatchSchema waits until a newer Berth has migrated the database, and then returns an error. It returns nil when the
// context ends.
func (db *DB) WatchSchema(ctx context.Context) error {
	if db.lock != nil { // no other process uses the file
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(schemaEvery)
	defer tick.Stop()
	for {
		if err := db.migrator().newer(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// newer returns and records an error if the database has a newer schema than this Berth knows. It returns nil if the
// database does not answer.
func (m migrator) newer(ctx context.Context) error {
	m.db.health.mu.Lock()
	known := m.db.health.newer
	m.db.health.mu.Unlock()
	if known != nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTime)
	defer cancel()
	applied, err := m.appliedVersions(ctx)
	if err != nil {
		return nil
	}
	newer := m.unknown(applied)
	if newer == nil {
		return nil
	}
	m.db.health.mu.Lock()
	defer m.db.health.mu.Unlock()
	m.db.health.newer = newer
	return newer
}

// unknown returns an error if a migration was applied that this Berth does not have. Its number may be lower than that
// of known migrations, because migrations of two branches may be applied out of order.
func (m migrator) unknown(applied []int64) error {
	provider, err := m.migrations()
	if err != nil {
		return nil
	}
	known, target := map[int64]bool{0: true}, int64(0) // goose records a version 0
	for _, source := range provider.ListSources() {
		known[source.Version], target = true, max(target, source.Version)
	}
	newest := int64(-1)
	for _, version := range applied {
		if !known[version] {
			newest = max(newest, version)
		}
	}
	switch {
	case newest < 0:
		return nil
	case newest > target:
		return tooNew(Schema{Current: newest, Target: target})
	}
	e := fault.Errorf("check schema", api.CodeSchemaTooNew, "the database has migration %d, which this Berth does not know", newest)
	e.Hint = tooNewHint
	return e
}

// refusedBySchema replaces an error caused by a newer schema by an error that makes the caller retry. It returns nil
// for other errors.
func (db *DB) refusedBySchema(op string, err error) error {
	state := sqlState(err)
	missing := state == "42703" || state == "42P01" || state == "42P10" // column, table, unique index
	if !missing || db.migrator().newer(context.Background()) == nil {
		return nil
	}
	e := fault.Errorf(op, api.CodeShuttingDown, "the database was migrated by a newer Berth, and this server is about to end")
	e.Hint = "Try again: a newer server answers."
	return e
}
