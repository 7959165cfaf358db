package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// PromptRequest is a prompt to a conversation.
type PromptRequest struct {
	api.Prompt
	Conversation string
	Sandbox      string       // the sandbox that the caller expects; empty: the conversation's
	Make         bool         // create the conversation if its id is unknown
	Default      bool         // use the sandbox's default conversation, and create it if necessary
	Thread       store.Thread // use the thread's conversation, and create it if necessary; zero: none
	Queue        bool         // wait if another turn runs; false: return an error
	TurnID       string       // a request with a known id returns the same turn
}

// Prompt accepts a prompt. Once it returns, the user's message is stored and will be answered.
func (c Conversations) Prompt(ctx context.Context, a PromptRequest) (store.Turn, error) {
	if err := CheckPrompt(a.Prompt.Prompt); err != nil {
		return store.Turn{}, err
	}
	sent, err := c.fetch(ctx, a.Attachments)
	if err != nil {
		return store.Turn{}, err
	}
	files, err := c.opts.Attachments.filesOf(a.TurnID, sent)
	if err != nil {
		return store.Turn{}, err
	}
	conv, err := c.find(ctx, a)
	if err != nil {
		return store.Turn{}, err
	}
	model, err := c.model(ctx, conv, a.Model)
	if err != nil {
		return store.Turn{}, err
	}
	if err := c.checkKey(ctx, conv); err != nil {
		return store.Turn{}, err
	}
	if conv, err = c.assignSandbox(ctx, conv, a.Sandbox); err != nil {
		return store.Turn{}, err
	}
	return c.post(ctx, ask{
		ID: a.TurnID, Conversation: conv, Prompt: a.Prompt.Prompt, Files: files, Model: model, Template: conv.Template, Queue: a.Queue, Actor: c.actor,
	})
}

// model returns the model of a prompt: the requested one, or the agent's, or the template's. The template may list the
// allowed ones.
func (c Conversations) model(ctx context.Context, conv store.Conversation, asked string) (string, error) {
	const op = "choose model"
	if err := sandbox.CheckModel(asked); err != nil {
		return "", err
	}
	over, err := c.overrides(ctx, conv.Agent)
	if err != nil {
		return "", err
	}
	plan, err := c.opts.Plan(conv.Template)
	if err != nil {
		return "", err
	}
	model := cmp.Or(asked, over.Model, plan.Model)
	if model == plan.Model || len(plan.Models) == 0 || slices.Contains(plan.Models, model) {
		return model, nil
	}
	allowed := slices.Clone(plan.Models)
	if plan.Model != "" && !slices.Contains(allowed, plan.Model) {
		allowed = append([]string{plan.Model}, allowed...)
	}
	whose := "the model"
	if asked == "" {
		whose = "the agent's model"
	}
	return "", fault.Errorf(op, api.CodeModelNotAllowed, "%s %q is not one of those that the template %q allows: %s", whose, model, conv.Template, strings.Join(allowed, ", "))
}

// checkKey refuses a prompt whose agent has no key for certain: its sandbox is to be created, so that no person can have
// logged in there.
func (c Conversations) checkKey(ctx context.Context, conv store.Conversation) error {
	if c.opts.MissingKey == nil || conv.Sandbox != "" && !conv.OwnSandbox {
		return nil
	}
	over, err := c.overrides(ctx, conv.Agent)
	if err != nil {
		return err
	}
	key, err := c.opts.MissingKey(ctx, string(c.tenant), conv.Template, merged(over.Env, conv.Env))
	if err != nil || key == "" {
		return err
	}
	if conv.Sandbox != "" {
		if _, err := c.scope().ByID(ctx, conv.Sandbox); !errors.Is(err, fault.ErrNotFound) {
			return err
		}
	}
	e := fault.Errorf("", api.CodeModelKeyMissing, "the agent of the template %s has no key: %s is not set", conv.Template, key)
	e.Hint = fmt.Sprintf("Type 'berth secret set %[1]s', or, if the template reads it in the sandbox, give it to one conversation: berth chat -t %[2]s --env %[1]s", key, conv.Template)
	return e
}

// find returns the conversation and creates it if the request says so. The fields of the request must agree with it.
func (c Conversations) find(ctx context.Context, a PromptRequest) (store.Conversation, error) {
	want := api.CreateConversation{ID: a.Conversation, AgentID: a.AgentID, Template: a.Template, SandboxID: a.Sandbox}
	if a.Default {
		return c.findDefault(ctx, want, a.Model)
	}
	if a.Thread.Key != "" {
		return c.findThread(ctx, a.Thread, want, a.Model)
	}
	id, err := sandbox.ParseID(a.Conversation)
	if err != nil {
		return store.Conversation{}, err
	}
	conv, err := c.scope().Conversation(ctx, id)
	switch {
	case err == nil:
		err = c.agree(ctx, conv, want)
	case a.Make && errors.Is(err, fault.ErrNotFound):
		if conv, err = c.draft(ctx, want); err == nil {
			_, err = c.model(ctx, conv, a.Model)
		}
		if err == nil {
			conv, _, err = c.Create(ctx, want)
		}
	}
	return conv, err
}

// findDefault returns the default conversation of a sandbox, and creates it if there is none. A prompt that is refused
// creates nothing.
func (c Conversations) findDefault(ctx context.Context, want api.CreateConversation, model string) (store.Conversation, error) {
	conv, err := c.ofSandbox(ctx, want.SandboxID)
	if err == nil {
		err = c.agree(ctx, conv, want)
	}
	if err != nil || conv.ID != "" {
		return conv, err
	}
	if _, err := c.model(ctx, conv, model); err != nil {
		return conv, err
	}
	conv, _, err = c.scope().CreateConversation(ctx, conv)
	return conv, err
}

// agree compares like the function agree. If the request names something unknown, it returns that error instead of a
// mismatch.
func (c Conversations) agree(ctx context.Context, is store.Conversation, want api.CreateConversation) error {
	err := agree(is, want)
	if err != nil {
		if _, unknown := c.draft(ctx, want); unknown != nil {
			return unknown
		}
	}
	return err
}

// assignSandbox gives a conversation without a sandbox one: the requested sandbox or a new id. It does not start the
// sandbox.
func (c Conversations) assignSandbox(ctx context.Context, conv store.Conversation, asked string) (store.Conversation, error) {
	if conv.Sandbox != "" {
		_, err := c.scope().ByID(ctx, conv.Sandbox)
		switch {
		case err == nil || errors.Is(err, fault.ErrNotFound): // the sandbox exists, or is created on first use
			return conv, nil
		case !errors.Is(err, fault.ErrDeleted) || !conv.OwnSandbox:
			return conv, err
		}
	}
	id, own := store.NewID(), true
	if asked != "" && asked != conv.Sandbox {
		var err error
		if id, own, err = c.linkable(ctx, conv, asked); err != nil {
			return conv, err
		}
	}
	conv, err := c.scope().LinkSandbox(ctx, conv.ID, conv.Sandbox, id, own)
	if err == nil && asked != "" && conv.Sandbox != asked {
		err = mismatch(conv, asked)
	}
	return conv, err
}

// Ensure makes the conversation's sandbox run. It reports whether it created the sandbox.
func (c Conversations) Ensure(ctx context.Context, id string) (store.Conversation, sandbox.Sandbox, bool, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err == nil {
		conv, err = c.assignSandbox(ctx, conv, "")
	}
	if err != nil {
		return conv, sandbox.Sandbox{}, false, err
	}
	s, created, err := c.ensureSandbox(ctx, conv, 0)
	return conv, s, created, err
}

// ensureSandbox makes the conversation's sandbox run. It creates the conversation's own sandbox if there is none. It
// waits at most for the given time, zero for the engine's, while the sandbox before it is being deleted.
func (c Conversations) ensureSandbox(ctx context.Context, conv store.Conversation, gone time.Duration) (sandbox.Sandbox, bool, error) {
	s, err := c.scope().ByID(ctx, conv.Sandbox)
	if err == nil {
		return c.opts.Engine.Ensure(ctx, engine.Request{Owner: s.Owner, ID: s.ID, Actor: c.actor, GoneWait: gone})
	}
	if !conv.OwnSandbox || !errors.Is(err, fault.ErrNotFound) {
		return s, false, err
	}
	over, err := c.overrides(ctx, conv.Agent)
	if err = cmp.Or(err, conv.EnvProblem); err != nil {
		return s, false, err
	}
	s, created, err := c.opts.Engine.Ensure(ctx, engine.Request{
		Owner: conv.Owner(),
		NewID: conv.Sandbox, Actor: c.actor, GoneWait: gone, Account: conv.Account, Agent: conv.Agent,
		Spec: sandbox.Spec{Template: conv.Template, Profile: over.Profile, Env: merged(over.Env, conv.Env), Metadata: conv.Metadata},
	})
	if fault.CodeOf(err) == api.CodeSpecMismatch { // another request created it since, and its metadata has changed
		if there, again := c.scope().ByID(ctx, conv.Sandbox); again == nil {
			return c.opts.Engine.Ensure(ctx, engine.Request{Owner: there.Owner, ID: there.ID, Actor: c.actor, GoneWait: gone})
		}
	}
	return s, created, err
}

// merged returns the union of both maps; values of over win.
func merged(under, over map[string]string) map[string]string {
	if len(under) == 0 {
		return over
	}
	all := maps.Clone(under)
	maps.Copy(all, over)
	return all
}

// Link assigns another sandbox to the conversation. The conversation keeps the agent's session. If the session does
// not exist in the new sandbox, the next turn starts a new session with the history.
func (c Conversations) Link(ctx context.Context, id, sandboxID string) (store.Conversation, error) {
	conv, err := c.scope().Conversation(ctx, id)
	if err != nil || conv.Sandbox == sandboxID {
		return conv, err
	}
	open, err := c.scope().Turns().ListOpen(ctx, id, "")
	if err != nil {
		return conv, err
	}
	if len(open) > 0 {
		return conv, fault.Errorf("link sandbox", api.CodeTurnRunning, "turn %s runs in the conversation", open[0].ID)
	}
	if _, err := c.scope().ByID(ctx, sandboxID); err != nil {
		return conv, err
	}
	to, own, err := c.linkable(ctx, conv, sandboxID)
	if err != nil {
		return conv, err
	}
	if conv, err = c.scope().LinkSandbox(ctx, id, conv.Sandbox, to, own); err == nil && conv.Sandbox != to {
		err = fault.Errorf("link sandbox", api.CodeConflict, "conversation %s was linked to sandbox %s by another request", id, conv.Sandbox)
	}
	return conv, err
}

// turnGoneWait is the time after which a turn that waits for a delete says so. It goes on waiting.
const turnGoneWait = 2 * time.Second

// sandboxOf makes the sandbox of a turn run. It returns an error if the conversation has another sandbox by now.
func (s *Service) sandboxOf(ctx context.Context, t store.Turn) (sandbox.Sandbox, error) {
	c := s.Of(s.opts.Store.In(t.Tenant), t.Actor, "")
	conv, err := c.scope().Conversation(ctx, t.Conversation)
	if err != nil {
		return sandbox.Sandbox{}, err
	}
	sb, _, err := c.ensureSandbox(ctx, conv, turnGoneWait)
	if err == nil && sb.ID != t.Sandbox {
		err = fault.Errorf("run sandbox", api.CodeSandboxMismatch, "the conversation's sandbox is %s now, and was %s", sb.ID, t.Sandbox)
	}
	return sb, err
}
