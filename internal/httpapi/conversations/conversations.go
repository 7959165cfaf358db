package conversations

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// addConversations adds the routes of conversations under three paths. Older clients use /conversations and
// /conversation.
func (a *handlers) addConversations() {
	for _, base := range []string{exchange.ConversationsPath, "/conversations", "/conversation"} {
		a.addConversationsAt(base, base != exchange.ConversationsPath)
	}
	a.addUsage()
}

func (a *handlers) addConversationsAt(base string, twin bool) {
	var op access.OperationFunc = func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) rest.Operation {
		return rest.Operation{
			Route: exchange.Route{Method: method, Path: base + path, Name: name, Scope: scope, Hidden: twin},
			Tag:   "Conversations", Summary: summary, Problems: append([]api.Code{api.CodeUnsupported}, problems...),
		}
	}
	create := op(http.MethodPost, "", "create-conversation", api.ScopeWrite, "Create a conversation",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeSpecMismatch, api.CodeSandboxMismatch, api.CodeUnknownAgent, api.CodeUnknownTemplate)
	create.Description = "Returns 201 for a new conversation and 200 if the id exists; the request's fields must then match it. The sandbox is created on first use."
	create.Status, create.Also = http.StatusCreated, map[int]string{http.StatusOK: "The sandbox already existed"}
	rest.Serve(a.Spec, create, a.createConversation)
	rest.Serve(a.Spec, op(http.MethodGet, "", "list-conversations", api.ScopeRead, "List conversations, newest first",
		api.CodeInvalidCursor, api.CodeInvalidID, api.CodeNotFound), a.listConversations)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}", "get-conversation", api.ScopeRead, "Get a conversation", conversationProblems()...), a.getConversation)

	change := op(http.MethodPatch, "/{id}", "patch-conversation", api.ScopeWrite, "Change a conversation's title or sandbox",
		conversationProblems(api.CodeTurnRunning, api.CodeConflict)...)
	change.Description = "A conversation that is linked to another sandbox keeps its messages; its own sandbox does not change. Linking is refused while a turn runs."
	rest.Serve(a.Spec, change, a.patchConversation)

	remove := op(http.MethodDelete, "/{id}", "delete-conversation", api.ScopeWrite, "Delete a conversation and its messages", conversationProblems()...)
	remove.Description = "A running turn is cancelled first. The conversation's own sandbox is deleted too, unless the server's setting or terminate_sandbox says otherwise or another conversation uses it. A linked sandbox stays, unless its own conversation is deleted and no other conversation uses it."
	remove.Status = http.StatusNoContent
	rest.Serve(a.Spec, remove, a.deleteConversation)

	ensure := op(http.MethodPost, "/{id}/sandbox", "ensure-conversation-sandbox", api.ScopeWrite, "Get or create the conversation's sandbox and start it",
		conversationProblems(append([]api.Code{api.CodeUnknownTemplate, api.CodeUnknownProfile, api.CodeUnknownAgent}, access.EnsureProblems...)...)...)
	ensure.Status, ensure.Also = http.StatusCreated, map[int]string{http.StatusOK: "The conversation already had a sandbox"}
	rest.Serve(a.Spec, ensure, a.ensureConversation)

	a.addMessages(op)
	a.addTurns(op)
	a.addExport(op)
}

// conversationProblems returns the problems of routes for one conversation, and the given ones.
func conversationProblems(more ...api.Code) []api.Code {
	return append([]api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted}, more...)
}

// inConversations returns the conversations that the caller may see.
func (a *handlers) inConversations(ctx context.Context) (chat.Conversations, error) {
	if a.Chat == nil {
		return chat.Conversations{}, fault.Errorf("find conversations", api.CodeUnsupported, "this server has no conversations")
	}
	who, _ := auth.PrincipalFrom(ctx)
	return a.Chat.Of(a.In(ctx), who.Actor(), who.AccountID), nil
}

// findConversation finds a conversation by its id, among those that the caller may see.
func (a *handlers) findConversation(ctx context.Context, id string) (in chat.Conversations, c store.Conversation, err error) {
	if in, err = a.inConversations(ctx); err != nil {
		return in, c, err
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return in, c, err
	}
	c, err = a.In(ctx).Conversation(ctx, id)
	return in, c, err
}

// inConversation documents the part of a path that names a conversation.
func inConversation(o *huma.Operation) {
	o.Parameters = append(o.Parameters, &huma.Param{Name: "id", In: "path", Required: true, Description: "The conversation's id", Schema: &huma.Schema{Type: huma.TypeString}})
}

// ByConversation is the path parameter of routes for one conversation.
type ByConversation struct {
	ID string `path:"id" doc:"The conversation's id"`
}

func (a *handlers) createConversation(ctx context.Context, in *struct{ Body *api.CreateConversation }) (*rest.Created[api.Conversation], error) {
	all, err := a.inConversations(ctx)
	if err != nil {
		return nil, err
	}
	want := api.CreateConversation{}
	if in.Body != nil {
		want = *in.Body
	}
	if err := a.checkConversation(ctx, &want); err != nil {
		return nil, err
	}
	ours := want.ID == ""
	if ours {
		want.ID = exchange.EffectID(ctx)
	}
	c, created, err := all.Create(ctx, want)
	if err != nil {
		return nil, err
	}
	out := &rest.Created[api.Conversation]{Status: http.StatusOK, Location: exchange.ConversationsPath + "/" + sandbox.PublicID(c.ID)}
	if created || ours { // with an id of ours, an attempt whose answer was lost created it
		out.Status = http.StatusCreated
	}
	out.Body, err = a.conversationNow(ctx, c)
	return out, err
}

// checkConversation checks the rules that the schema cannot express, and replaces the name of a sandbox by its id.
func (a *handlers) checkConversation(ctx context.Context, want *api.CreateConversation) (err error) {
	if err := exchange.CheckPlain("body.title", want.Title); err != nil {
		return err
	}
	if err := exchange.CheckPlain("body.account_id", want.AccountID); err != nil {
		return err
	}
	access.HideEnv(ctx, want.Env)
	if err := access.CheckSpec(sandbox.Spec{Env: want.Env, Metadata: want.Metadata}); err != nil {
		return err
	}
	if want.SandboxID != "" {
		want.SandboxID, err = a.ResolveID(ctx, want.SandboxID)
	}
	return err
}

type listConversations struct {
	SandboxID string `query:"sandbox_id" maxLength:"63" doc:"Only conversations that use this sandbox (id or name)"`
	rest.Paging
}

func (a *handlers) listConversations(ctx context.Context, in *listConversations) (*rest.Reply[api.List[api.Conversation]], error) {
	if _, err := a.inConversations(ctx); err != nil {
		return nil, err
	}
	id := ""
	if in.SandboxID != "" {
		var err error
		if id, err = a.ResolveID(ctx, in.SandboxID); err != nil {
			return nil, err
		}
	}
	list := "conversations/" + id
	page, err := in.StorePage(list)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Conversations(ctx, id, page)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, c := range rows {
		ids[i] = c.ID
	}
	working, err := a.In(ctx).Turns().ListOldestOpen(ctx, ids)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(list, rows, next, func(c store.Conversation) api.Conversation { return conversationOut(c, working[c.ID]) }), nil
}

func (a *handlers) getConversation(ctx context.Context, in *ByConversation) (*rest.Reply[api.Conversation], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err == nil {
		c, err = all.Get(ctx, c.ID)
	}
	if err != nil {
		return nil, err
	}
	out, err := a.conversationNow(ctx, c)
	if err != nil {
		return nil, err
	}
	n, why, err := a.In(ctx).Outgoing().Count(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		out.Undelivered = &api.Undelivered{Messages: int(n), LastError: a.Redactor.String(why)}
	}
	return &rest.Reply[api.Conversation]{Body: out}, nil
}

type patchConversation struct {
	ByConversation
	Body api.PatchConversation
}

func (a *handlers) patchConversation(ctx context.Context, in *patchConversation) (*rest.Reply[api.Conversation], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body.Title != nil {
		if err := exchange.CheckPlain("body.title", *in.Body.Title); err != nil {
			return nil, err
		}
	}
	if in.Body.SandboxID != "" {
		box, err := a.ResolveID(ctx, in.Body.SandboxID)
		if err != nil {
			return nil, err
		}
		if _, err := all.Link(ctx, c.ID, box); err != nil {
			return nil, err
		}
	}
	if in.Body.Title != nil {
		if err := a.In(ctx).SetTitle(ctx, c.ID, *in.Body.Title); err != nil {
			return nil, err
		}
	}
	if c, err = all.Get(ctx, c.ID); err != nil {
		return nil, err
	}
	out, err := a.conversationNow(ctx, c)
	return &rest.Reply[api.Conversation]{Body: out}, err
}

type deleteConversation struct {
	ByConversation
	TerminateSandbox string `query:"terminate_sandbox" enum:"true,false" doc:"Delete its own sandbox too; default: the server's setting"`
	access.Ending
}

func (a *handlers) deleteConversation(ctx context.Context, in *deleteConversation) (*struct{}, error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	d := chat.Deletion{SkipSave: !in.Sync}
	if in.TerminateSandbox != "" {
		end := in.TerminateSandbox == "true"
		d.Sandbox = &end
	}
	wait, cancel := context.WithTimeout(ctx, a.DeleteWait)
	defer cancel()
	return nil, all.Delete(wait, c.ID, d)
}

type ensureConversation struct {
	ByConversation
	access.MassDelete
}

func (a *handlers) ensureConversation(ctx context.Context, in *ensureConversation) (*rest.Created[api.ConversationSandbox], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if c.Sandbox != "" {
		err = a.MergeBeforeStart(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) { return a.In(ctx).ByID(ctx, c.Sandbox) })
		if err != nil {
			return nil, err
		}
	}
	c, s, created, err := all.Ensure(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	access.SetNotice(ctx, s.ActiveBefore, s)
	out := &rest.Created[api.ConversationSandbox]{
		Status: http.StatusOK, Location: exchange.SandboxesPath + "/" + sandbox.PublicID(s.ID),
		Body: api.ConversationSandbox{ConversationID: sandbox.PublicID(c.ID), SandboxID: sandbox.PublicID(s.ID), Sandbox: engine.Show(s)},
	}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// conversationNow converts a conversation and adds its running turn.
func (a *handlers) conversationNow(ctx context.Context, c store.Conversation) (api.Conversation, error) {
	working, err := a.In(ctx).Turns().ListOldestOpen(ctx, []string{c.ID})
	return conversationOut(c, working[c.ID]), err
}

func conversationOut(c store.Conversation, turn string) api.Conversation {
	out := api.Conversation{
		ID: sandbox.PublicID(c.ID), Title: c.Title, AccountID: c.Account, OrganizationID: string(c.Tenant), AgentID: c.Agent, Template: c.Template,
		SandboxID: sandbox.PublicID(c.Sandbox), SessionID: c.Session, Status: "idle", TurnID: turn, Stats: c.Stats.Stats(), ExtraStats: c.Extra,
		Env: slices.Sorted(maps.Keys(c.Env)), Metadata: c.Metadata,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if turn != "" {
		out.Status = "running"
	}
	return out
}
