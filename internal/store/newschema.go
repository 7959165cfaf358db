package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	schemaEvery = 2 * time.Second // how often the schema's version is read
	schemaTime  = 5 * time.Second // for one reading
)

// WatchSchema waits until a newer Berth has migrated the database, and returns what says so. It returns nil
// when the context ends.
func (db *DB) WatchSchema(ctx context.Context) error {
	if db.lock != nil { // no other process uses the file
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(schemaEvery)
	defer tick.Stop()
	for {
		if err := db.newerSchema(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// newerSchema returns an error if the database has a newer schema than this Berth knows, and remembers it. A
// database that does not answer says nothing.
func (db *DB) newerSchema(ctx context.Context) error {
	db.health.mu.Lock()
	known := db.health.newer
	db.health.mu.Unlock()
	if known != nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTime)
	defer cancel()
	applied, err := db.appliedVersions(ctx)
	if err != nil {
		return nil
	}
	newer := db.unknown(applied)
	if newer == nil {
		return nil
	}
	db.health.mu.Lock()
	defer db.health.mu.Unlock()
	db.health.newer = newer
	return newer
}

// unknown returns an error if a migration was applied that this Berth does not have. Its number may be lower than
// those that it has: migrations of two branches come out of order.
func (db *DB) unknown(applied []int64) error {
	provider, err := db.migrations()
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
	e := sandbox.Errorf("check schema", api.CodeSchemaTooNew, "the database has migration %d, which this Berth does not know", newest)
	e.Hint = tooNewHint
	return e
}

// refusedBySchema turns the failure of a statement that a newer schema does not fit into a refusal: the caller
// tries again and reaches a newer server. Nil for all else.
func (db *DB) refusedBySchema(op string, err error) error {
	state := sqlState(err)
	missing := state == "42703" || state == "42P01" || state == "42P10" // column, table, unique index
	if !missing || db.newerSchema(context.Background()) == nil {
		return nil
	}
	e := sandbox.Errorf(op, api.CodeShuttingDown, "the database was migrated by a newer Berth, and this server is about to end")
	e.Hint = "Try again: a newer server answers."
	return e
}
