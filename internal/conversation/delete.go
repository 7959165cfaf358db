package conversation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Kinds of the outbox's words about conversations that were deleted.
const (
	kindForget = "forget_messages"
	kindEnd    = "end_sandbox"
)

// Deletion says what is to become of what a conversation had.
type Deletion struct {
	Sandbox  *bool // end its own sandbox; nil: as the server is configured
	SkipSave bool
}

// ending is what is written down about a sandbox that goes with its conversation.
type ending struct {
	Sandbox  string
	SkipSave bool
	Actor    string
}

// Delete ends what runs in the conversation and removes it with its messages. Its own sandbox goes with it,
// if so asked and no other conversation works in it. One that it was linked to stays, unless it was the last
// to work in the sandbox of a conversation that is gone.
func (c Conversations) Delete(ctx context.Context, id string, d Deletion) error {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil {
		return err
	}
	if err := c.Turns.Stop(ctx, c.tenant, id, "the conversation is deleted"); err != nil {
		return err
	}
	then := []store.Message{{Kind: kindForget, Ref: id}}
	if d.Sandbox == nil {
		d.Sandbox = &c.DeleteSandbox
	}
	if *d.Sandbox {
		ends, err := c.ends(ctx, conv)
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
	c.flush(ctx, id, flushTime) // what cannot be done now is done later
	return nil
}

// ends lists the sandboxes that may end with a conversation: the one it works in, if a conversation owns it,
// and the one it owns, if it was linked to another since. Who else uses them is looked at when they end.
func (c Conversations) ends(ctx context.Context, conv store.Conversation) (ids []string, err error) {
	s, err := c.scope().ByID(ctx, conv.Sandbox)
	switch {
	case err == nil && s.Owner.Kind == sandbox.OwnerConversation, conv.OwnSandbox && conv.Sandbox != "":
		ids = append(ids, conv.Sandbox)
	case err != nil && !errors.Is(err, sandbox.ErrNotFound) && !errors.Is(err, sandbox.ErrDeleted):
		return nil, err
	}
	if conv.OwnSandbox {
		return ids, nil
	}
	switch s, err = c.scope().ByOwner(ctx, sandbox.OwnerConversation, conv.ID); {
	case err == nil && s.ID != conv.Sandbox:
		ids = append(ids, s.ID)
	case err != nil && !errors.Is(err, sandbox.ErrNotFound):
		return nil, err
	}
	return ids, nil
}

// forget removes the messages of a conversation that was deleted.
func (s *Service) forget(ctx context.Context, out store.Message) error {
	return s.Transcript.Forget(ctx, string(out.Tenant), out.Ref)
}

// endSandbox ends the sandbox of a conversation that was deleted, unless another one works in it.
func (s *Service) endSandbox(ctx context.Context, out store.Message) error {
	var e ending
	if err := json.Unmarshal(out.Payload, &e); err != nil {
		return errors.Join(outbox.ErrDrop, err)
	}
	in := s.Store.In(out.Tenant)
	users, err := in.Users(ctx, e.Sandbox)
	if err != nil || users > 0 {
		return err
	}
	sb, err := in.ByID(ctx, e.Sandbox)
	if err == nil && sb.Owner.Kind == sandbox.OwnerConversation && sb.Owner.ID != out.Ref {
		if gone, err := in.ConversationDeleted(ctx, sb.Owner.ID); err != nil || !gone {
			return err // its owner may come back to it
		}
	}
	_, err = s.Engine.Delete(ctx, string(out.Tenant), e.Sandbox, e.Actor, e.SkipSave)
	if errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrDeleted) { // it never ran, or is gone
		return nil
	}
	return err
}
