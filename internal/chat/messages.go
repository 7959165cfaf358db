package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/hook"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// Time limits for storing a message: in an external message store, and in the database.
const (
	storeTime = 10 * time.Second
	countTime = 3 * time.Second
)

// deliver stores one message of the outbox in the message store and adds it to the conversation's stats.
func (s *Service) deliver(ctx context.Context, out store.Message) error {
	var m api.Message
	if err := json.Unmarshal(out.Payload, &m); err != nil {
		return errors.Join(outbox.ErrDrop, err)
	}
	in := s.opts.Store.In(out.Tenant)
	c, err := in.Conversation(ctx, m.ConversationID)
	gone := errors.Is(err, fault.ErrDeleted)
	if err != nil && !gone {
		return err
	}
	if drops, err := s.dropsMessage(ctx, c); drops || err != nil {
		return err // without an error, the outbox removes the message
	}
	if !s.opts.TranscriptInStore && !gone {
		if err := s.opts.Transcript.Put(ctx, string(out.Tenant), m); err != nil {
			return err
		}
	}
	sum, err := in.UsageCounts().CountMessage(ctx, out, m, s.opts.TranscriptInStore && !gone)
	if errors.Is(err, fault.ErrStale) {
		return nil // another server delivered it
	} else if err != nil {
		return err
	}
	s.opts.Log.InfoContext(ctx, "message saved", "message_id", m.ID, "conversation_id", m.ConversationID, "role", m.Role, "status", m.Status,
		"input_tokens", m.Usage.InputTokens, "output_tokens", m.Usage.OutputTokens,
		"cache_read_tokens", m.Usage.CacheReadTokens, "cache_write_tokens", m.Usage.CacheWriteTokens, "cost_usd", m.CostUSD,
		"messages_exchanged", sum.Messages, "total_input_tokens", sum.Input, "total_output_tokens", sum.Output,
		"total_cache_tokens", sum.CacheRead+sum.CacheWrite, "total_cost_usd", store.Dollars(sum.CostNanos))
	return nil
}

// dropsMessage reports whether the template of the conversation's sandbox stores no messages.
func (s *Service) dropsMessage(ctx context.Context, c store.Conversation) (bool, error) {
	template := c.Template
	if s.opts.Hooks == nil {
		return false, nil
	}
	if c.Sandbox != "" {
		sb, err := s.opts.Store.Sandbox(ctx, c.Sandbox)
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			return false, err
		}
		template = cmp.Or(sb.Spec.Template, template)
	}
	return s.opts.Hooks.Drops(template, hook.Store), nil
}

// Time limits of reads and turns. They wait for messages that are not stored yet (flushTime), and less if storing them
// failed before (reflushTime). With the read itself (readTime) the sum is below 5 seconds, the time within which a
// store that does not answer must be reported.
const (
	flushTime   = 2 * time.Second
	reflushTime = 500 * time.Millisecond
	readTime    = 4 * time.Second
	historyTime = 3 * time.Second // for the history of a new session
)

// flush tries to store the conversation's messages that are in the outbox, for at most the given time.
func (c Conversations) flush(ctx context.Context, id string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.opts.Outbox.Flush(ctx, id); err != nil {
		c.opts.Log.WarnContext(ctx, "messages are kept and not stored yet", "conversation_id", id, "error", err)
	}
}

// Messages returns a page of a conversation's messages and the cursor of the next page.
func (c Conversations) Messages(ctx context.Context, id string, page transcript.Page) ([]api.Message, string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if _, err := c.Get(ctx, id); err != nil {
		return nil, "", err
	}
	list, next, err := c.opts.Transcript.List(ctx, string(c.tenant), id, page)
	for i := range list {
		list[i].ConversationID = sandbox.PublicID(list[i].ConversationID)
	}
	return list, next, err
}

// Message returns one message.
func (c Conversations) Message(ctx context.Context, id, message string) (api.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if _, err := c.Get(ctx, id); err != nil {
		return api.Message{}, err
	}
	m, err := c.opts.Transcript.Get(ctx, string(c.tenant), id, message)
	m.ConversationID = sandbox.PublicID(m.ConversationID)
	return m, err
}
