package chat

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/store"
)

// Kinds of outbox messages about deleted conversations.
const (
	kindForget = "forget_messages"
	kindEnd    = "end_sandbox"
)

// Deletion holds the options of Delete.
type Deletion struct {
	Sandbox  *bool // also delete the conversation's own sandbox; nil: as the server is configured
	SkipSave bool
}

// ending is the payload of an outbox message that deletes a sandbox after its conversation.
type ending struct {
	Sandbox  string
	SkipSave bool
	Actor    string
}

// Delete cancels the conversation's turns and removes it with its messages. If d.Sandbox is set, it also deletes the
// sandboxes that no other conversation works in (see sandboxesToDelete and endSandbox).
func (c Conversations) Delete(ctx context.Context, id string, d Deletion) error {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, c.tenant, id, "the conversation is deleted"); err != nil {
		return err
	}
	then := []store.Message{{Kind: kindForget, Ref: id}}
	if d.Sandbox == nil {
		d.Sandbox = &c.opts.DeleteSandbox
	}
	if *d.Sandbox {
		ends, err := c.sandboxesToDelete(ctx, conv)
		if err != nil {
			return err
		}
		for _, s := range ends {
			text, err := json.Marshal(ending{s, d.SkipSave, c.actor})
			if err != nil {
				return err
			}
			then = append(then, store.Message{Kind: kindEnd, Ref: id, Payload: text})
		}
	}
	if there, err := c.scope().DeleteConversation(ctx, id, then...); err != nil || !there {
		return err
	}
	c.flush(ctx, id, flushTime) // the outbox retries the rest later
	return nil
}

// sandboxesToDelete lists the sandboxes that may be deleted with a conversation: the sandbox it works in, if any conversation owns
// that, and the sandbox it owns, if it was linked to another one since. endSandbox checks for other users.
func (c Conversations) sandboxesToDelete(ctx context.Context, conv store.Conversation) (ids []string, err error) {
	s, err := c.scope().ByID(ctx, conv.Sandbox)
	switch {
	case err == nil && s.Owner.HasMessages(), conv.OwnSandbox && conv.Sandbox != "":
		ids = append(ids, conv.Sandbox)
	case err != nil && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrDeleted):
		return nil, err
	}
	if conv.OwnSandbox {
		return ids, nil
	}
	switch s, err = c.scope().ByOwner(ctx, conv.Owner().Kind, conv.Owner().ID); {
	case err == nil && s.ID != conv.Sandbox:
		ids = append(ids, s.ID)
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return nil, err
	}
	return ids, nil
}

// forgetMessages removes the messages of a deleted conversation.
func (s *Service) forgetMessages(ctx context.Context, out store.Message) error {
	return s.opts.Transcript.Forget(ctx, string(out.Tenant), out.Ref)
}

// endSandbox deletes the sandbox of a deleted conversation, unless another conversation works in it or still owns it.
func (s *Service) endSandbox(ctx context.Context, out store.Message) error {
	var e ending
	if err := json.Unmarshal(out.Payload, &e); err != nil {
		return errors.Join(outbox.ErrDrop, err)
	}
	in := s.opts.Store.In(out.Tenant)
	users, err := in.CountConversations(ctx, e.Sandbox)
	if err != nil || users > 0 {
		return err
	}
	sb, err := in.ByID(ctx, e.Sandbox)
	if err == nil && sb.Owner.HasMessages() && sb.Owner.ID != out.Ref {
		if gone, err := in.Threads().OwnerDeleted(ctx, sb.Owner, out.Ref); err != nil || !gone {
			return err // the owner exists and may use the sandbox again
		}
	}
	_, err = s.opts.Engine.Delete(ctx, string(out.Tenant), e.Sandbox, e.Actor, e.SkipSave)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDeleted) { // the sandbox was never created, or is deleted
		return nil
	}
	return err
}
