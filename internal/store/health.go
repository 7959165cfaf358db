package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// failuresToReport is how often a background scan fails in a row before [DB.Health] reports it. One failure
// may be a restart of the database.
const failuresToReport = 2

// health is what the store knows about its own trouble.
type health struct {
	mu      sync.Mutex
	failing map[string]*failingScan
	damage  error // found in the file, until the process ends
	suspect error // a statement has met damage, and the file is being checked
	newer   error // a newer Berth has migrated the database
}

// failingScan is a background scan whose last run failed.
type failingScan struct {
	count int
	err   error
}

// Health returns why the database cannot be relied on, nil if nothing is known: damage in SQLite's file, or
// background scans that fail again and again. A scan that succeeds is healthy again.
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
	return sandbox.Errorf("check background scans", api.CodeStoreUnavailable, "%s", strings.Join(all, "; "))
}

// scanned is fail for a scan that runs every few seconds. It also notes how the scan went.
func (db *DB) scanned(scan string, err error) error {
	db.health.note(scan, err)
	return db.fail(scan, err)
}

func (h *health) note(scan string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := h.failing[scan]; {
	case err == nil:
		delete(h.failing, scan)
	case errors.Is(err, context.Canceled): // says nothing about the database
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
