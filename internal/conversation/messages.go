package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// How long storing a message may take elsewhere, and in the database itself.
const (
	storeTime = 10 * time.Second
	countTime = 3 * time.Second
)

// deliver brings one message of the outbox to where messages are kept, and counts it.
func (s *Service) deliver(ctx context.Context, out store.Message) error {
	var m api.Message
	if err := json.Unmarshal(out.Payload, &m); err != nil {
		return errors.Join(outbox.ErrDrop, err)
	}
	in := s.Store.In(out.Tenant)
	_, err := in.Conversation(ctx, m.ConversationID)
	gone := errors.Is(err, sandbox.ErrDeleted)
	if err != nil && !gone {
		return err
	}
	if !s.Here && !gone {
		if err := s.Transcript.Put(ctx, string(out.Tenant), m); err != nil {
			return err
		}
	}
	sum, err := in.CountMessage(ctx, out, m, s.Here && !gone)
	if errors.Is(err, sandbox.ErrStale) {
		return nil // somebody else was faster
	} else if err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "message saved", "message_id", m.ID, "conversation_id", m.ConversationID, "role", m.Role, "status", m.Status,
		"input_tokens", m.Usage.InputTokens, "output_tokens", m.Usage.OutputTokens,
		"cache_read_tokens", m.Usage.CacheReadTokens, "cache_write_tokens", m.Usage.CacheWriteTokens, "cost_usd", m.CostUSD,
		"messages_exchanged", sum.Messages, "total_input_tokens", sum.Input, "total_output_tokens", sum.Output,
		"total_cache_tokens", sum.CacheRead+sum.CacheWrite, "total_cost_usd", store.Dollars(sum.CostNanos))
	return nil
}

// Deliver brings what is in the outbox of a turn's conversation to where messages are kept.
func (s *Service) Deliver(ctx context.Context, t store.Turn) error {
	return s.Outbox.Flush(ctx, t.Conversation)
}

// Limits of reads. A reader waits for messages on their way to the store (flushTime), and less for those
// that could not be stored before (reflushTime). Together with reading (readTime) that is below the 5
// seconds within which a store that does not answer is reported.
const (
	flushTime   = 2 * time.Second
	reflushTime = 500 * time.Millisecond
	readTime    = 4 * time.Second
	historyTime = 3 * time.Second // before an agent starts without the history
)

// flush brings messages that are on their way to where they are kept, if that can be done in time.
func (c Conversations) flush(ctx context.Context, id string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Outbox.Flush(ctx, id); err != nil {
		c.Log.WarnContext(ctx, "messages are kept and not stored yet", "conversation_id", id, "error", err)
	}
}

// Messages returns a page of a conversation's messages, and where the next begins.
func (c Conversations) Messages(ctx context.Context, id string, page transcript.Page) ([]api.Message, string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if _, err := c.Get(ctx, id); err != nil {
		return nil, "", err
	}
	return c.Transcript.List(ctx, string(c.tenant), id, page)
}

// Message returns one message.
func (c Conversations) Message(ctx context.Context, id, message string) (api.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if _, err := c.Get(ctx, id); err != nil {
		return api.Message{}, err
	}
	return c.Transcript.Get(ctx, string(c.tenant), id, message)
}

// remembered is how many messages a new session is told of.
const remembered = 40

// History is the newest messages of a turn's conversation, oldest first, the turn's own left out.
func (s *Service) History(ctx context.Context, t store.Turn) ([]api.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	messages, _, err := s.Transcript.List(ctx, string(t.Tenant), t.Conversation, transcript.Page{Newest: true, Limit: remembered})
	if err != nil {
		return nil, err
	}
	var history []api.Message
	for i := len(messages) - 1; i >= 0; i-- {
		if m := messages[i]; m.TurnID != t.ID && m.ID < t.Message {
			history = append(history, m)
		}
	}
	return history, nil
}
