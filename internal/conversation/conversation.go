// Package conversation is the front of conversations: prompts and answers in one sandbox, with one session
// of an agent.
//
// A conversation has a sandbox of its own, made on first use, or one that it is linked to. [Service.Prompt]
// accepts a prompt, which package turn then runs. Messages go through the outbox to the message store
// ([Service.Deliver]); what they add up to is counted in the database, in the transaction that takes them out
// of the outbox, so that the stats are always the sum over the messages.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/outbox"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/turn"
)

// Engine is what conversations need of the engine.
type Engine interface {
	Ensure(ctx context.Context, r engine.Request) (s sandbox.Sandbox, created bool, err error)
	Delete(ctx context.Context, tenant, id, actor string, skipSave bool) (sandbox.Sandbox, error)
	CheckTemplate(name string) error
}

// Options is what a Service is made of.
type Options struct {
	Store      *store.DB
	Engine     Engine
	Turns      *turn.Service
	Transcript transcript.Store
	// Here says that the transcript is the database itself: then a message and its count are one.
	Here     bool
	Outbox   *outbox.Outbox
	Template string // of conversations that name none
	// DeleteSandbox says that deleting a conversation ends its own sandbox.
	DeleteSandbox bool
	Log           *slog.Logger
}

// Service is the conversations of every tenant.
type Service struct{ Options }

// New returns a service, and has the outbox bring its messages to it.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{o}
	within := storeTime
	if o.Here {
		within = countTime
	}
	o.Outbox.RegisterWithin(store.OutboxMessage, within, s.deliver)
	o.Outbox.Register(kindForget, s.forget)
	o.Outbox.Register(kindEnd, s.endSandbox)
	return s
}

// Of returns the conversations that a caller may see. New ones are for the account, empty for none.
func (s *Service) Of(scope store.Scope, actor, account string) Conversations {
	return Conversations{s, scope, scope.Tenant(), actor, account}
}

// Conversations are those of one tenant.
type Conversations struct {
	*Service
	in      store.Scope
	tenant  store.TenantID
	actor   string
	account string // of new ones
}

func (c Conversations) scope() store.Scope { return c.in }

// Create makes a conversation, and says whether it did: one with the id already is returned if it agrees
// with what is asked for.
func (c Conversations) Create(ctx context.Context, want api.CreateConversation) (store.Conversation, bool, error) {
	n, err := c.draft(ctx, want)
	if err != nil {
		return n, false, err
	}
	if want.SandboxID != "" {
		if n.Sandbox, n.OwnSandbox, err = c.linkable(ctx, n.ID, want.SandboxID); err != nil {
			return n, false, err
		}
		if len(n.Env) > 0 && !n.OwnSandbox {
			return n, false, sandbox.Errorf("create conversation", api.CodeInvalidRequest, "sandbox %s has its own variables; env is for a sandbox that the conversation makes", n.Sandbox)
		}
	}
	made, created, err := c.scope().CreateConversation(ctx, n)
	if err == nil && !created {
		err = agree(made, want)
	}
	return made, created, err
}

// draft is a conversation as it is asked for, complete with what was left out.
func (c Conversations) draft(ctx context.Context, want api.CreateConversation) (n store.Conversation, err error) {
	n = store.Conversation{ID: want.ID, Title: want.Title, Account: want.AccountID, Agent: want.AgentID, Template: want.Template, Env: want.Env, Metadata: want.Metadata}
	if n.Account, err = c.accountFor(ctx, want.AccountID); err != nil {
		return n, err
	}
	if n.ID == "" {
		n.ID = store.NewID()
	} else if n.ID, err = sandbox.ParseID(n.ID); err != nil {
		return n, err
	}
	if err := cmp.Or(sandbox.CheckMetadata(n.Metadata), sandbox.CheckEnv(n.Env)); err != nil {
		return n, err
	}
	if n.Template == "" {
		if n.Template, err = c.template(ctx, n.Agent, want.SandboxID); err != nil {
			return n, err
		}
	} else if n.Agent != "" {
		if _, err := c.scope().Agent(ctx, n.Agent); err != nil {
			return n, err
		}
	}
	return n, c.Engine.CheckTemplate(n.Template)
}

// accountFor is the account of a new conversation: the one asked for, which must exist, or the caller's.
func (c Conversations) accountFor(ctx context.Context, asked string) (string, error) {
	if asked == "" || asked == c.account {
		return c.account, nil
	}
	id, err := sandbox.ParseID(asked)
	if err != nil {
		return "", err
	}
	a, err := c.scope().Account(ctx, id)
	return a.ID, err
}

// template is the one of a conversation that names none: its agent's, that of the sandbox it is linked to,
// or the server's.
func (c Conversations) template(ctx context.Context, agent, sandboxID string) (string, error) {
	if agent != "" {
		a, err := c.scope().Agent(ctx, agent)
		if err != nil || a.Template != "" {
			return a.Template, err
		}
	}
	if sandboxID != "" {
		if s, err := c.scope().Record(ctx, sandboxID); err == nil {
			return s.Spec.Template, nil
		}
	}
	return c.Template, nil
}

// linkable is a sandbox that a conversation may work in: one that is there, or, if the id is free, its own
// that will be made under it.
func (c Conversations) linkable(ctx context.Context, conversation, id string) (sandboxID string, own bool, err error) {
	if id, err = sandbox.ParseID(id); err != nil {
		return "", false, err
	}
	s, err := c.scope().ByID(ctx, id)
	switch {
	case err == nil:
		return id, s.Owner.Kind == sandbox.OwnerConversation && s.Owner.ID == conversation, nil
	case !errors.Is(err, sandbox.ErrNotFound):
		return "", false, err
	}
	if foreign, err := c.scope().Foreign(ctx, id); err != nil || foreign {
		if foreign {
			err = sandbox.Errorf("read sandbox", api.CodeNotFound, "there is no sandbox with the id %q", id)
		}
		return "", false, err
	}
	return id, true, nil
}

// agree compares a conversation that is there with what is asked for, as far as that says anything.
func agree(is store.Conversation, want api.CreateConversation) error {
	for _, f := range []struct{ name, is, want string }{
		{"agent_id", is.Agent, want.AgentID}, {"template", is.Template, want.Template}, {"account_id", is.Account, want.AccountID},
	} {
		if f.want != "" && f.want != f.is {
			name := "conversation " + is.ID
			if is.ID == "" {
				name = "the default conversation of sandbox " + is.Sandbox
			}
			return sandbox.Errorf("create conversation", api.CodeSpecMismatch, "%s has the %s %q, not %q", name, f.name, f.is, f.want)
		}
	}
	if want.Env != nil && !maps.Equal(is.Env, want.Env) {
		return sandbox.Errorf("create conversation", api.CodeSpecMismatch, "conversation %s has another env", is.ID)
	}
	if want.SandboxID != "" && is.Sandbox != "" && want.SandboxID != is.Sandbox {
		return mismatch(is, want.SandboxID)
	}
	return nil
}

func mismatch(c store.Conversation, asked string) error {
	return sandbox.Errorf("find the conversation's sandbox", api.CodeSandboxMismatch, "conversation %s works in sandbox %s, not in %s", c.ID, c.Sandbox, asked)
}

// Get returns one conversation, its messages counted as far as they can be stored.
func (c Conversations) Get(ctx context.Context, id string) (store.Conversation, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil {
		return conv, err
	}
	n, failed, err := c.scope().Waiting(ctx, id)
	if err != nil || n == 0 {
		return conv, err
	}
	patience := flushTime
	if failed != "" {
		patience = reflushTime
	}
	c.flush(ctx, id, patience)
	return c.scope().Conversation(ctx, id)
}

// ofSandbox is the default conversation of a sandbox, which older callers speak to; one that has no id yet is still to be made.
func (c Conversations) ofSandbox(ctx context.Context, sandboxID string) (store.Conversation, error) {
	s, err := c.scope().ByID(ctx, sandboxID)
	if err != nil {
		return store.Conversation{}, err
	}
	conv, err := c.scope().DefaultConversation(ctx, s.ID)
	if errors.Is(err, sandbox.ErrNotFound) {
		return store.Conversation{Account: c.account, Template: s.Spec.Template, Sandbox: s.ID, Default: true, Title: "sandbox " + s.ID}, nil
	}
	return conv, err
}
