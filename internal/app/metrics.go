package app

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
)

// observe has metrics record what happens outside of the engine: syncs, and what the database holds.
func (s *System) observe(metrics *telemetry.Metrics) {
	metrics.Watch(s.snapshot)
	if s.keeper != nil {
		s.keeper.Observe = metrics.ObserveSync
	}
}

// snapshot counts sandboxes by state, and what waits in the outbox.
func (s *System) snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	out := telemetry.Snapshot{Sandboxes: map[string]int64{}, Outbox: map[string]telemetry.Lag{}}
	for _, kind := range s.Outbox.Kinds() {
		out.Outbox[kind] = telemetry.Lag{}
	}
	states, err := s.Store.States(ctx)
	if err != nil {
		return out, err
	}
	for state, n := range states {
		out.Sandboxes[string(state)] = n
	}
	backlogs, err := s.Store.Backlogs(ctx)
	for _, b := range backlogs {
		out.Outbox[b.Kind] = telemetry.Lag{Messages: b.Messages, Oldest: max(0, time.Since(b.Oldest))}
	}
	return out, err
}
