package conversation

import (
	"context"
	"errors"
	"maps"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/turn"
)

// Asking is a prompt to a conversation.
type Asking struct {
	api.Prompt
	Conversation string
	Sandbox      string // the one to work in; empty: the conversation's
	Make         bool   // make the conversation if there is none under the id
	Default      bool   // it is for the sandbox's default conversation, which is made if there is none
	Queue        bool
	TurnID       string // the same one again is the same turn
}

// Prompt accepts a prompt. Once it returns, the user's message is stored, and will be answered.
func (c Conversations) Prompt(ctx context.Context, a Asking) (store.Turn, error) {
	if err := turn.CheckPrompt(a.Prompt.Prompt); err != nil {
		return store.Turn{}, err
	}
	conv, err := c.find(ctx, a)
	if err != nil {
		return store.Turn{}, err
	}
	over, err := c.overrides(ctx, conv.Agent)
	if err != nil {
		return store.Turn{}, err
	}
	if conv, err = c.seat(ctx, conv, a.Sandbox); err != nil {
		return store.Turn{}, err
	}
	model := a.Model
	if model == "" {
		model = over.Model
	}
	return c.Turns.Post(ctx, turn.Ask{
		ID: a.TurnID, Conversation: conv, Prompt: a.Prompt.Prompt, Model: model, Template: conv.Template, Queue: a.Queue, Actor: c.actor,
	})
}

// find is the conversation, made if that is asked for. What the prompt says of it must agree.
func (c Conversations) find(ctx context.Context, a Asking) (store.Conversation, error) {
	want := api.CreateConversation{ID: a.Conversation, AgentID: a.AgentID, Template: a.Template, SandboxID: a.Sandbox}
	if a.Default {
		return c.findDefault(ctx, want)
	}
	id, err := sandbox.ParseID(a.Conversation)
	if err != nil {
		return store.Conversation{}, err
	}
	conv, err := c.scope().Conversation(ctx, id)
	switch {
	case err == nil:
		err = c.agree(ctx, conv, want)
	case a.Make && errors.Is(err, sandbox.ErrNotFound):
		conv, _, err = c.Create(ctx, want)
	}
	return conv, err
}

// findDefault is the default conversation of a sandbox, made only for a prompt that it agrees with: what is
// refused leaves nothing behind.
func (c Conversations) findDefault(ctx context.Context, want api.CreateConversation) (store.Conversation, error) {
	conv, err := c.ofSandbox(ctx, want.SandboxID)
	if err == nil {
		err = c.agree(ctx, conv, want)
	}
	if err != nil || conv.ID != "" {
		return conv, err
	}
	conv, _, err = c.scope().CreateConversation(ctx, conv)
	return conv, err
}

// agree is [agree] for what may also agree with nothing.
func (c Conversations) agree(ctx context.Context, is store.Conversation, want api.CreateConversation) error {
	err := agree(is, want)
	if err != nil {
		if _, unknown := c.draft(ctx, want); unknown != nil {
			return unknown
		}
	}
	return err
}

// seat gives the conversation a sandbox to work in, if it has none: the one asked for, or a new one. It does
// not make it run.
func (c Conversations) seat(ctx context.Context, conv store.Conversation, asked string) (store.Conversation, error) {
	if conv.Sandbox != "" {
		_, err := c.scope().ByID(ctx, conv.Sandbox)
		switch {
		case err == nil || errors.Is(err, sandbox.ErrNotFound): // it is there, or will be made
			return conv, nil
		case !errors.Is(err, sandbox.ErrDeleted) || !conv.OwnSandbox:
			return conv, err
		}
	}
	id, own := store.NewID(), true
	if asked != "" && asked != conv.Sandbox {
		var err error
		if id, own, err = c.linkable(ctx, conv.ID, asked); err != nil {
			return conv, err
		}
	}
	conv, err := c.scope().LinkSandbox(ctx, conv.ID, conv.Sandbox, id, own)
	if err == nil && asked != "" && conv.Sandbox != asked {
		err = mismatch(conv, asked)
	}
	return conv, err
}

// Ensure makes the conversation's sandbox run, and says whether this made it.
func (c Conversations) Ensure(ctx context.Context, id string) (store.Conversation, sandbox.Sandbox, bool, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err == nil {
		conv, err = c.seat(ctx, conv, "")
	}
	if err != nil {
		return conv, sandbox.Sandbox{}, false, err
	}
	s, created, err := c.bring(ctx, conv)
	return conv, s, created, err
}

// bring makes the conversation's sandbox run: its own is made if there is none.
func (c Conversations) bring(ctx context.Context, conv store.Conversation) (sandbox.Sandbox, bool, error) {
	s, err := c.scope().ByID(ctx, conv.Sandbox)
	if err == nil {
		return c.Engine.Ensure(ctx, engine.Request{Owner: s.Owner, ID: s.ID, Actor: c.actor})
	}
	if !conv.OwnSandbox || !errors.Is(err, sandbox.ErrNotFound) {
		return s, false, err
	}
	over, err := c.overrides(ctx, conv.Agent)
	if err != nil {
		return s, false, err
	}
	s, created, err := c.Engine.Ensure(ctx, engine.Request{
		Owner: sandbox.Owner{Tenant: string(c.tenant), Kind: sandbox.OwnerConversation, ID: conv.ID},
		NewID: conv.Sandbox, Actor: c.actor, Account: conv.Account, Agent: conv.Agent,
		Spec: sandbox.Spec{Template: conv.Template, Profile: over.Profile, Env: merged(over.Env, conv.Env), Metadata: conv.Metadata},
	})
	if sandbox.CodeOf(err) == api.CodeSpecMismatch { // made by another request since, and its metadata has grown
		if there, again := c.scope().ByID(ctx, conv.Sandbox); again == nil {
			return c.Engine.Ensure(ctx, engine.Request{Owner: there.Owner, ID: there.ID, Actor: c.actor})
		}
	}
	return s, created, err
}

// merged is both together; what is in the second goes first.
func merged(under, over map[string]string) map[string]string {
	if len(under) == 0 {
		return over
	}
	all := maps.Clone(under)
	maps.Copy(all, over)
	return all
}

// Link has the conversation work in another sandbox from now on. The agent's session stays with the
// conversation; where it does not exist in the new sandbox the next turn starts one with the history at hand.
func (c Conversations) Link(ctx context.Context, id, sandboxID string) (store.Conversation, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil || conv.Sandbox == sandboxID {
		return conv, err
	}
	open, err := c.scope().OpenTurns(ctx, id, "")
	if err != nil {
		return conv, err
	}
	if len(open) > 0 {
		return conv, sandbox.Errorf("link sandbox", api.CodeTurnRunning, "turn %s runs in the conversation", open[0].ID)
	}
	if _, err := c.scope().ByID(ctx, sandboxID); err != nil {
		return conv, err
	}
	to, own, err := c.linkable(ctx, id, sandboxID)
	if err != nil {
		return conv, err
	}
	if conv, err = c.scope().LinkSandbox(ctx, id, conv.Sandbox, to, own); err == nil && conv.Sandbox != to {
		err = sandbox.Errorf("link sandbox", api.CodeConflict, "conversation %s was linked to sandbox %s by another request", id, conv.Sandbox)
	}
	return conv, err
}

// Bring makes the sandbox of a turn run.
func (s *Service) Bring(ctx context.Context, t store.Turn) (sandbox.Sandbox, error) {
	c := s.Of(s.Store.In(t.Tenant), t.Actor, "")
	conv, err := c.scope().Conversation(ctx, t.Conversation)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	sb, _, err := c.bring(ctx, conv)
	if err == nil && sb.ID != t.Sandbox {
		err = sandbox.Errorf("bring sandbox", api.CodeSandboxMismatch, "the conversation's sandbox is %s now, and was %s", sb.ID, t.Sandbox)
	}
	return sb, err
}
