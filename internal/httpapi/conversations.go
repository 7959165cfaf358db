package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/danielgtaylor/huma/v2"
)

const conversationsPath = "/api/v1/conversations"

// addConversations adds the routes of conversations three times: older callers have them at the root, and
// say "conversation", too.
func (a *Handler) addConversations() {
	for _, base := range []string{conversationsPath, "/conversations", "/conversation"} {
		a.addConversationsAt(base, base != conversationsPath)
	}
	a.addUsage()
}

func (a *Handler) addConversationsAt(base string, twin bool) {
	var op opMaker = func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) operation {
		return operation{
			route: route{Method: method, Path: base + path, Name: name, Scope: scope, Hidden: twin},
			Tag:   "Conversations", Summary: summary, Problems: append([]api.Code{api.CodeUnsupported}, problems...),
		}
	}
	create := op(http.MethodPost, "", "create-conversation", api.ScopeWrite, "Make a conversation",
		api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeSpecMismatch, api.CodeSandboxMismatch, api.CodeUnknownAgent, api.CodeUnknownTemplate)
	create.Description = "Answers 201 if it is new, 200 if there was one with that id; the fields given must agree with it. Its sandbox is made when it is first used."
	create.Status, create.Also = http.StatusCreated, map[int]string{http.StatusOK: "It was there already"}
	serve(a, create, a.createConversation)
	serve(a, op(http.MethodGet, "", "list-conversations", api.ScopeRead, "List conversations, newest first",
		api.CodeInvalidCursor, api.CodeInvalidID, api.CodeNotFound), a.listConversations)
	serve(a, op(http.MethodGet, "/{id}", "get-conversation", api.ScopeRead, "Read a conversation", ofConversation()...), a.getConversation)

	change := op(http.MethodPatch, "/{id}", "patch-conversation", api.ScopeWrite, "Change a conversation: its title, or the sandbox it works in",
		ofConversation(api.CodeTurnRunning, api.CodeConflict)...)
	change.Description = "A conversation that is linked to another sandbox keeps its messages and goes on there; its own sandbox stays as it is. Not while a turn runs."
	serve(a, change, a.patchConversation)

	remove := op(http.MethodDelete, "/{id}", "delete-conversation", api.ScopeWrite, "Delete a conversation and its messages for good", ofConversation()...)
	remove.Description = "Ends what runs in it first. Its own sandbox goes with it, unless the server or the request says otherwise, or another conversation uses it. One that it was only linked to stays, unless it was the last to use the sandbox of a conversation that is gone."
	remove.Status = http.StatusNoContent
	serve(a, remove, a.deleteConversation)

	ensure := op(http.MethodPost, "/{id}/sandbox", "ensure-conversation-sandbox", api.ScopeWrite, "Get or create the conversation's sandbox, running",
		ofConversation(append([]api.Code{api.CodeUnknownTemplate, api.CodeUnknownProfile, api.CodeUnknownAgent}, ensuring...)...)...)
	ensure.Status, ensure.Also = http.StatusCreated, map[int]string{http.StatusOK: "It had it already"}
	serve(a, ensure, a.ensureConversation)

	a.addMessages(op)
	a.addTurns(op)
	a.addExport(op)
}

// ofConversation are the problems of whatever names a conversation.
func ofConversation(more ...api.Code) []api.Code {
	return append([]api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted}, more...)
}

// inConversations returns the conversations that the caller may see.
func (a *Handler) inConversations(ctx context.Context) (conversation.Conversations, error) {
	if a.Conversations == nil || a.Turns == nil {
		return conversation.Conversations{}, sandbox.Errorf("find conversations", api.CodeUnsupported, "this server has no conversations")
	}
	who, _ := auth.PrincipalFrom(ctx)
	return a.Conversations.Of(a.in(ctx), who.Actor(), who.AccountID), nil
}

// findConversation finds the one that the caller named.
func (a *Handler) findConversation(ctx context.Context, id string) (in conversation.Conversations, c store.Conversation, err error) {
	if in, err = a.inConversations(ctx); err != nil {
		return in, c, err
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return in, c, err
	}
	c, err = a.in(ctx).Conversation(ctx, id)
	return in, c, err
}

// inConversation documents the part of a path that names a conversation.
func inConversation(o *huma.Operation) {
	o.Parameters = append(o.Parameters, &huma.Param{Name: "id", In: "path", Required: true, Description: "The conversation's id", Schema: &huma.Schema{Type: huma.TypeString}})
}

// ByConversation names a conversation in a path.
type ByConversation struct {
	ID string `path:"id" doc:"The conversation's id"`
}

func (a *Handler) createConversation(ctx context.Context, in *struct{ Body *api.CreateConversation }) (*made[api.Conversation], error) {
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
		want.ID = effectID(ctx)
	}
	c, created, err := all.Create(ctx, want)
	if err != nil {
		return nil, err
	}
	out := &made[api.Conversation]{Status: http.StatusOK, Location: conversationsPath + "/" + c.ID}
	if created || ours { // then an attempt whose answer was lost made it
		out.Status = http.StatusCreated
	}
	out.Body, err = a.conversationNow(ctx, c)
	return out, err
}

// checkConversation refuses what the schema cannot, and finds a sandbox that is called by its name.
func (a *Handler) checkConversation(ctx context.Context, want *api.CreateConversation) (err error) {
	if err := checkPlain("body.title", want.Title); err != nil {
		return err
	}
	if err := checkPlain("body.account_id", want.AccountID); err != nil {
		return err
	}
	hideEnv(ctx, want.Env)
	if err := checkSpec(sandbox.Spec{Env: want.Env, Metadata: want.Metadata}); err != nil {
		return err
	}
	if want.SandboxID != "" {
		want.SandboxID, err = a.sandboxID(ctx, want.SandboxID)
	}
	return err
}

// sandboxID is the id that a reference to a sandbox stands for. One that is given as an id need not exist.
func (a *Handler) sandboxID(ctx context.Context, ref string) (string, error) {
	id, name, err := sandbox.ParseRef(ref)
	if err != nil || name == "" {
		return id, err
	}
	s, err := a.in(ctx).ByName(ctx, name)
	return s.ID, err
}

type listConversations struct {
	SandboxID string `query:"sandbox_id" maxLength:"63" doc:"Only those that work in this sandbox, by its id or its name"`
	Paging
}

func (a *Handler) listConversations(ctx context.Context, in *listConversations) (*reply[api.List[api.Conversation]], error) {
	if _, err := a.inConversations(ctx); err != nil {
		return nil, err
	}
	id := ""
	if in.SandboxID != "" {
		var err error
		if id, err = a.sandboxID(ctx, in.SandboxID); err != nil {
			return nil, err
		}
	}
	list := "conversations/" + id
	page, err := in.storePage(list)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Conversations(ctx, id, page)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, c := range rows {
		ids[i] = c.ID
	}
	working, err := a.in(ctx).Working(ctx, ids)
	if err != nil {
		return nil, err
	}
	return listOf(list, rows, next, func(c store.Conversation) api.Conversation { return conversationOut(c, working[c.ID]) }), nil
}

func (a *Handler) getConversation(ctx context.Context, in *ByConversation) (*reply[api.Conversation], error) {
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
	n, why, err := a.in(ctx).Waiting(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		out.Undelivered = &api.Undelivered{Messages: int(n), LastError: a.clean(why)}
	}
	return &reply[api.Conversation]{out}, nil
}

type patchConversation struct {
	ByConversation
	Body api.PatchConversation
}

func (a *Handler) patchConversation(ctx context.Context, in *patchConversation) (*reply[api.Conversation], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Body.Title != nil {
		if err := checkPlain("body.title", *in.Body.Title); err != nil {
			return nil, err
		}
	}
	if in.Body.SandboxID != "" {
		box, err := a.sandboxID(ctx, in.Body.SandboxID)
		if err != nil {
			return nil, err
		}
		if _, err := all.Link(ctx, c.ID, box); err != nil {
			return nil, err
		}
	}
	if in.Body.Title != nil {
		if err := a.in(ctx).SetTitle(ctx, c.ID, *in.Body.Title); err != nil {
			return nil, err
		}
	}
	if c, err = all.Get(ctx, c.ID); err != nil {
		return nil, err
	}
	out, err := a.conversationNow(ctx, c)
	return &reply[api.Conversation]{out}, err
}

type deleteConversation struct {
	ByConversation
	TerminateSandbox string `query:"terminate_sandbox" enum:"true,false" doc:"End its own sandbox; the server's setting if left out"`
	Ending
}

func (a *Handler) deleteConversation(ctx context.Context, in *deleteConversation) (*struct{}, error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	d := conversation.Deletion{SkipSave: !in.Sync}
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
	MassDelete
}

func (a *Handler) ensureConversation(ctx context.Context, in *ensureConversation) (*made[api.ConversationSandbox], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if c.Sandbox != "" {
		err = a.mergeOwn(ctx, in.MassDelete, func(ctx context.Context) (sandbox.Sandbox, error) { return a.in(ctx).ByID(ctx, c.Sandbox) })
		if err != nil {
			return nil, err
		}
	}
	c, s, created, err := all.Ensure(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	out := &made[api.ConversationSandbox]{
		Status: http.StatusOK, Location: sandboxesPath + "/" + s.ID,
		Body: api.ConversationSandbox{ConversationID: c.ID, SandboxID: s.ID, Sandbox: sandboxOut(s)},
	}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// conversationNow is a conversation with what happens in it.
func (a *Handler) conversationNow(ctx context.Context, c store.Conversation) (api.Conversation, error) {
	working, err := a.in(ctx).Working(ctx, []string{c.ID})
	return conversationOut(c, working[c.ID]), err
}

func conversationOut(c store.Conversation, turn string) api.Conversation {
	out := api.Conversation{
		ID: c.ID, Title: c.Title, AccountID: c.Account, OrganizationID: string(c.Tenant), AgentID: c.Agent, Template: c.Template,
		SandboxID: c.Sandbox, SessionID: c.Session, Status: "idle", TurnID: turn, Stats: c.Stats.Stats(), ExtraStats: c.Extra,
		Env: slices.Sorted(maps.Keys(c.Env)), Metadata: c.Metadata,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if turn != "" {
		out.Status = "running"
	}
	return out
}
