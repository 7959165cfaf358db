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
	recordTime = 2 * time.Second // for one statement; a call goes on without it
	watchEvery = time.Second     // how late a notice that reached another server may be
	renewEvery = store.ToolCallAlive / 4
)

// digest has one length whatever a client sent.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (p place) digest() string { return digest(p.caller + "\x00" + p.path) }

// record makes the call known to other servers, and returns its id there. Empty: it can only be cancelled with
// its connection.
func (r *running) record(ctx context.Context, at place, request json.RawMessage) string {
	if r.shared == nil {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, recordTime)
	defer stop()
	c := store.ToolCall{ID: store.NewID(), Server: r.server, Client: at.digest(), Request: digest(string(request))}
	if r.shared.BeginToolCall(ctx, c) != nil {
		return ""
	}
	return c.ID
}

// watch ends calls that were cancelled through other servers, for as long as there are calls.
func (r *running) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	renewed := time.Now()
	for range tick.C {
		if r.idle() {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), recordTime)
		if time.Since(renewed) >= renewEvery && r.shared.RenewToolCalls(ctx, r.server) == nil {
			renewed = time.Now()
		}
		// One that fails is tried again with the next tick.
		if ids, err := r.shared.CancelledToolCalls(ctx, r.server); err == nil && len(ids) > 0 {
			r.end(func(_ place, one *oneCall) bool { return slices.Contains(ids, one.id) })
		}
		stop()
	}
}

// idle reports whether no recorded call is left. The watch has ended then, and the next call begins another.
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
