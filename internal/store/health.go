package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// failuresToReport is the number of failures in a row after which [DB.Health] reports a background scan. A single
// failure may be a restart of the database.
const failuresToReport = 2

// health holds the known problems of the store.
type health struct {
	mu      sync.Mutex
	failing map[string]*failingScan
	damage  error // found in the file; it stays until the process ends
	suspect error // a statement found damage, and the file is being checked
	newer   error // a newer Berth has migrated the database
	secret  error // the database is encrypted with a secret that this server does not know
}

// failingScan is a background scan whose last run failed.
type failingScan struct {
	count int
	err   error
}

// Health returns a reason why the database cannot be relied on, or nil if none is known: damage in SQLite's file, a
// newer schema, an unknown secret, or background scans that fail repeatedly. A scan is healthy again once it succeeds.
func (db *DB) Health() error {
	h := &db.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.damage != nil {
		return h.damage
	}
	if h.suspect != nil {
		return h.suspect
	}
	if h.newer != nil {
		return h.newer
	}
	if h.secret != nil {
		return h.secret
	}
	var all []string
	for scan, f := range h.failing {
		if f.count >= failuresToReport {
			all = append(all, fmt.Sprintf("%s has failed %d times in a row: %v", scan, f.count, f.err))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return fault.Errorf("check background scans", api.CodeStoreUnavailable, "%s", strings.Join(all, "; "))
}

// recordScan is fail for a background scan. It also records the scan's result for Health. A scan must be repeated until
// it succeeds, also when it failed: otherwise its failure is reported for longer than it lasts.
func (db *DB) recordScan(scan string, err error) error {
	db.health.note(scan, err)
	return db.fail(scan, err)
}

func (h *health) note(scan string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := h.failing[scan]; {
	case err == nil:
		delete(h.failing, scan)
	case errors.Is(err, context.Canceled): // not a problem of the database
	case f != nil:
		f.count++
		f.err = err
	default:
		if h.failing == nil {
			h.failing = map[string]*failingScan{}
		}
		h.failing[scan] = &failingScan{1, err}
	}
}
