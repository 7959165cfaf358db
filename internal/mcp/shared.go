package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/berthdev/berth/internal/store"
)

const (
	recordTime = 2 * time.Second // the timeout of one statement; a call continues after an error
	watchEvery = time.Second     // the interval of checks for calls that were cancelled through other servers
	renewEvery = store.ToolCallAlive / 4
)

// digest returns the SHA-256 of a text in hexadecimal, so that texts of any length fit into the database.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (p place) digest() string { return digest(p.caller + "\x00" + p.path) }

// record records the call for other servers and returns its id. If it returns "", the call is not recorded and can only
// be cancelled by closing its connection.
func (r *running) record(ctx context.Context, at place, request json.RawMessage) string {
	if r.shared == nil {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, recordTime)
	defer stop()
	c := store.ToolCall{ID: store.NewID(), Server: r.server, Client: at.digest(), Request: digest(string(request))}
	if r.shared.Begin(ctx, c) != nil {
		return ""
	}
	return c.ID
}

// watch ends calls that were cancelled through other servers. It returns when there is no recorded call.
func (r *running) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	renewed := time.Now()
	for range tick.C {
		if r.idle() {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), recordTime)
		if time.Since(renewed) >= renewEvery && r.shared.Renew(ctx, r.server) == nil {
			renewed = time.Now()
		}
		// After an error, the next tick tries again.
		if ids, err := r.shared.ListCancelled(ctx, r.server); err == nil && len(ids) > 0 {
			r.end(func(_ place, one *oneCall) bool { return slices.Contains(ids, one.id) })
		}
		stop()
	}
}

// idle reports whether there is no recorded call. If so, it clears watching: watch returns, and the next call starts it
// again.
func (r *running) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, calls := range r.calls {
		for one := range calls {
			if one.id != "" {
				return false
			}
		}
	}
	r.watching = false
	return true
}
