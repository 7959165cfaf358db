package chat

import (
	"context"
	"encoding/json"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// Await waits for the end of a turn, and returns the turn and the content of the assistant's message.
func (s *Service) Await(ctx context.Context, t store.Turn) (store.Turn, []api.Block, error) {
	var fold agent.Fold
	gone := false
	for e, err := range s.Events(ctx, t, 0) {
		if err != nil {
			return t, nil, err
		}
		var event api.TurnEvent
		if err := json.Unmarshal(e.Data, &event); err != nil {
			return t, nil, fault.Errorf("wait for the turn", api.CodeInternal, "an event of turn %s cannot be read: %w", t.ID, err)
		}
		gone = event.Type == api.EventResync
		fold.Add(event)
	}
	if err := ctx.Err(); err != nil {
		return t, nil, context.Cause(ctx)
	}
	done, err := s.opts.Store.In(t.Tenant).Turns().Get(ctx, t.ID)
	if err != nil || !gone || done.Reply == "" {
		return done, append([]api.Block{}, fold.Blocks()...), err
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	m, err := s.opts.Transcript.Get(ctx, string(t.Tenant), t.Conversation, done.Reply)
	return done, append([]api.Block{}, m.Content...), err
}
