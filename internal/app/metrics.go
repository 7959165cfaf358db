package app

import (
	"context"
	"time"

	"github.com/berthdev/berth/internal/telemetry"
)

// snapshot counts the sandboxes by state and the waiting outbox messages by kind.
func (s *System) snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	out := telemetry.Snapshot{Sandboxes: map[string]int64{}, Outbox: map[string]telemetry.Lag{}}
	for _, kind := range s.outbox.Kinds() {
		out.Outbox[kind] = telemetry.Lag{}
	}
	states, err := s.store.Overview().States(ctx)
	if err != nil {
		return out, err
	}
	for state, n := range states {
		out.Sandboxes[string(state)] = n
	}
	backlogs, err := s.store.Overview().Backlogs(ctx)
	for _, b := range backlogs {
		out.Outbox[b.Kind] = telemetry.Lag{Messages: b.Messages, Oldest: max(0, time.Since(b.Oldest))}
	}
	return out, err
}
