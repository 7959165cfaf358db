package chat

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// Of returns the conversations of the scope. account is the account of new conversations; empty: none.
func (s *Service) Of(scope store.Scope, actor, account string) Conversations {
	return Conversations{s, scope, scope.Tenant(), actor, account}
}

// Conversations gives access to the conversations of one tenant.
type Conversations struct {
	*Service
	in      store.Scope
	tenant  store.TenantID
	actor   string
	account string // of new conversations
}

func (c Conversations) scope() store.Scope { return c.in }

// Create creates a conversation and reports whether it did. If the id exists, it returns the existing conversation, or
// an error if that differs from the request.
func (c Conversations) Create(ctx context.Context, want api.CreateConversation) (store.Conversation, bool, error) {
	n, err := c.draft(ctx, want)
	if err != nil {
		return n, false, err
	}
	if want.SandboxID != "" {
		if n.Sandbox, n.OwnSandbox, err = c.linkable(ctx, n, want.SandboxID); err != nil {
			return n, false, err
		}
		if len(n.Env) > 0 && !n.OwnSandbox {
			return n, false, fault.Errorf("create conversation", api.CodeInvalidRequest, "sandbox %s has its own variables; env is for a sandbox that the conversation makes", n.Sandbox)
		}
	}
	made, created, err := c.scope().CreateConversation(ctx, n)
	if err == nil && !created {
		err = agree(made, want)
	}
	return made, created, err
}

// draft returns the conversation that the request describes, with defaults for missing fields.
func (c Conversations) draft(ctx context.Context, want api.CreateConversation) (n store.Conversation, err error) {
	n = store.Conversation{ID: want.ID, Tenant: c.tenant, Title: want.Title, Account: want.AccountID, Agent: want.AgentID, Template: want.Template, Env: want.Env, Metadata: want.Metadata}
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
		if _, err := c.scope().Agents().Get(ctx, n.Agent); err != nil {
			return n, err
		}
	}
	if want.SandboxID != "" {
		if s, err := c.scope().ByIDOrDeleted(ctx, want.SandboxID); err == nil && s.Spec.Template == n.Template {
			return n, nil // the template of the sandbox is allowed, even if its tenant may no longer use it
		}
	}
	return n, c.opts.Engine.CheckTemplate(string(c.tenant), n.Template)
}

// accountFor returns the account of a new conversation: the requested one, which must exist, or the caller's.
func (c Conversations) accountFor(ctx context.Context, asked string) (string, error) {
	if asked == "" || asked == c.account {
		return c.account, nil
	}
	id, err := sandbox.ParseID(asked)
	if err != nil {
		return "", err
	}
	a, err := c.scope().Accounts().Get(ctx, id)
	return a.ID, err
}

// template returns the template of a conversation that names none: the template of its agent, or of its sandbox, or
// the server's default.
func (c Conversations) template(ctx context.Context, agent, sandboxID string) (string, error) {
	if agent != "" {
		a, err := c.scope().Agents().Get(ctx, agent)
		if err != nil || a.Template != "" {
			return a.Template, err
		}
	}
	if sandboxID != "" {
		if s, err := c.scope().ByIDOrDeleted(ctx, sandboxID); err == nil {
			return s.Spec.Template, nil
		}
	}
	return c.opts.DefaultTemplate, nil
}

// linkable checks that a conversation may work in a sandbox. The sandbox exists, or the id is free and the
// conversation creates its own sandbox with it. own reports whether the conversation owns the sandbox.
func (c Conversations) linkable(ctx context.Context, conv store.Conversation, id string) (sandboxID string, own bool, err error) {
	if _, err = sandbox.ParseID(sandbox.PublicID(id)); err != nil {
		return "", false, err
	}
	s, err := c.scope().ByID(ctx, id)
	switch {
	case err == nil:
		owner := conv.Owner()
		return s.ID, s.Owner.Kind == owner.Kind && sandbox.PublicID(s.Owner.ID) == sandbox.PublicID(owner.ID), nil
	case !errors.Is(err, fault.ErrNotFound):
		return "", false, err
	}
	if foreign, err := c.scope().OutsideScope(ctx, id); err != nil || foreign {
		if foreign {
			err = fault.Errorf("read sandbox", api.CodeNotFound, "there is no sandbox with the id %q", id)
		}
		return "", false, err
	}
	id, err = c.scope().SandboxID(ctx, id)
	return id, true, err
}

// agree returns an error if an existing conversation differs from a field that the request gives.
func agree(is store.Conversation, want api.CreateConversation) error {
	for _, f := range []struct{ name, is, want string }{
		{"agent_id", is.Agent, want.AgentID}, {"template", is.Template, want.Template}, {"account_id", is.Account, want.AccountID},
	} {
		if f.want != "" && f.want != f.is {
			name := "conversation " + is.ID
			if is.ID == "" {
				name = "the default conversation of sandbox " + is.Sandbox
			}
			return fault.Errorf("create conversation", api.CodeSpecMismatch, "%s has the %s %q, not %q", name, f.name, f.is, f.want)
		}
	}
	if want.Env != nil && is.EnvProblem != nil {
		return is.EnvProblem
	}
	if want.Env != nil && !maps.Equal(is.Env, want.Env) {
		return fault.Errorf("create conversation", api.CodeSpecMismatch, "conversation %s has another env", is.ID)
	}
	if want.SandboxID != "" && is.Sandbox != "" && want.SandboxID != is.Sandbox {
		return mismatch(is, want.SandboxID)
	}
	return nil
}

func mismatch(c store.Conversation, asked string) error {
	return fault.Errorf("find the conversation's sandbox", api.CodeSandboxMismatch, "conversation %s works in sandbox %s, not in %s", c.ID, c.Sandbox, asked)
}

// Get returns a conversation. It first tries to store messages that are still in the outbox, so that the stats count
// them.
func (c Conversations) Get(ctx context.Context, id string) (store.Conversation, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil {
		return conv, err
	}
	n, failed, err := c.scope().Outgoing().Count(ctx, id)
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

// ofSandbox returns the default conversation of a sandbox. If there is none yet, it returns one without an id, to be
// created.
func (c Conversations) ofSandbox(ctx context.Context, sandboxID string) (store.Conversation, error) {
	s, err := c.scope().ByID(ctx, sandboxID)
	if err != nil {
		return store.Conversation{}, err
	}
	conv, err := c.scope().DefaultConversation(ctx, s.ID)
	if errors.Is(err, fault.ErrNotFound) {
		return store.Conversation{Account: c.account, Template: s.Spec.Template, Sandbox: s.ID, Default: true, Title: "sandbox " + s.ID}, nil
	}
	return conv, err
}
