package conversations

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// addThreads adds the routes of threads: conversations with keys that a chat system chose.
func (a *handlers) addThreads() {
	var op access.OperationFunc = func(method, path, name string, scope api.Scope, summary string, problems ...api.Code) rest.Operation {
		return rest.Operation{
			Route: exchange.Route{Method: method, Path: exchange.ThreadsPath + path, Name: name, Scope: scope},
			Tag:   "Threads", Summary: summary, Problems: append([]api.Code{api.CodeUnsupported, api.CodeRuntimeDisabled, api.CodeInvalidID}, problems...),
		}
	}
	const one = "/{thread_id}"
	rest.Serve(a.Spec, op(http.MethodGet, "", "list-threads", api.ScopeRead, "List threads, newest first", api.CodeInvalidCursor), a.listThreads)
	rest.Serve(a.Spec, op(http.MethodGet, one, "get-thread", api.ScopeRead, "Get a thread", api.CodeNotFound), a.getThread)

	prompt := op(http.MethodPost, one+"/messages", "prompt-thread", api.ScopeWrite, "Send a message of a thread to its agent", append([]api.Code{api.CodeDeleting}, promptProblems...)...)
	prompt.Description = "The first message creates the thread and its sandbox. A message that arrives while a turn runs waits for it, unless queue=false. "
	a.servePrompt(prompt, promptTarget{find: a.toThread, parameters: []string{"workspace", "channel"}, queue: true}, rest.InPath("thread_id"),
		rest.InQuery("workspace", "string", inWorkspace), rest.InQuery("channel", "string", "The channel of a new thread"))

	rest.Serve(a.Spec, op(http.MethodGet, one+"/messages", "list-thread-messages", api.ScopeRead, "List a thread's messages", api.CodeNotFound, api.CodeInvalidCursor), a.listThreadMessages)
	artifacts := op(http.MethodGet, one+"/artifacts", "list-artifacts", api.ScopeRead, "List the files that a thread's turns have shown, newest turn first", api.CodeNotFound, api.CodeInvalidCursor)
	artifacts.Description = "A turn shows the files below output/display/ in the workspace that it changed. The limit counts turns."
	rest.Serve(a.Spec, artifacts, a.listArtifacts)

	stop := op(http.MethodPost, one+"/stop", "stop-thread", api.ScopeWrite, "Cancel a thread's turns and stop its sandbox", append(access.ReachProblems, api.CodeTurnRunning)...)
	stop.Description = "All files are kept; the next message starts the sandbox again."
	rest.Serve(a.Spec, stop, a.stopThread)

	remove := op(http.MethodDelete, one, "delete-thread", api.ScopeWrite, "Delete a thread, its messages and its sandbox", api.CodeNotFound, api.CodeDeleted)
	remove.Description = "A running turn is cancelled first. terminate_sandbox=false keeps the sandbox. A later message with the same key begins a new thread."
	remove.Status = http.StatusNoContent
	rest.Serve(a.Spec, remove, a.deleteThread)
}

const inWorkspace = "The chat system's workspace; keys are unique in it. Default: the workspace with the empty name"

// ByThread is the parameters of routes for one thread.
type ByThread struct {
	ThreadID  string `path:"thread_id" doc:"The thread's key in the chat system: 1 to 190 bytes of printable text without slashes" example:"C024BE91L:1482960137.003543"`
	Workspace string `query:"workspace" maxLength:"64" doc:"The chat system's workspace; keys are unique in it. Default: the workspace with the empty name"`
}

func (a *handlers) toThread(_ http.ResponseWriter, r *http.Request) (chat.PromptRequest, error) {
	q := r.URL.Query()
	return a.threadPrompt(store.Thread{Workspace: q.Get("workspace"), Key: r.PathValue("thread_id"), Channel: q.Get("channel")})
}

func (a *handlers) threadPrompt(t store.Thread) (chat.PromptRequest, error) {
	if err := a.threadsAreOn(); err != nil {
		return chat.PromptRequest{}, err
	}
	return chat.PromptRequest{Thread: t}, chat.CheckThread(t)
}

// threadsAreOn returns an error if the server has no threads.
func (a *handlers) threadsAreOn() error {
	if a.ThreadsOff {
		return fault.Errorf("find thread", api.CodeRuntimeDisabled, "this server has no threads: sandbox_runtime_enabled is false")
	}
	return nil
}

// findThread finds a thread among those that the caller may see.
func (a *handlers) findThread(ctx context.Context, in ByThread) (chat.Conversations, store.Conversation, error) {
	all, err := a.inConversations(ctx)
	if err == nil {
		err = a.threadsAreOn()
	}
	if err != nil {
		return all, store.Conversation{}, err
	}
	c, err := all.Thread(ctx, store.Thread{Workspace: in.Workspace, Key: in.ThreadID})
	return all, c, err
}

type listThreads struct {
	Workspace string `query:"workspace" maxLength:"64" doc:"Only threads of this workspace"`
	Channel   string `query:"channel" maxLength:"200" doc:"Only threads of this channel"`
	rest.Paging
}

func (a *handlers) listThreads(ctx context.Context, in *listThreads) (*rest.Reply[api.List[api.Thread]], error) {
	if _, err := a.inConversations(ctx); err != nil {
		return nil, err
	}
	if err := a.threadsAreOn(); err != nil {
		return nil, err
	}
	list := "threads/" + url.QueryEscape(in.Workspace) + "/" + url.QueryEscape(in.Channel)
	page, err := in.StorePage(list)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Threads().List(ctx, store.ThreadFilter{Workspace: in.Workspace, Channel: in.Channel}, page)
	if err != nil {
		return nil, err
	}
	ids, boxes := make([]string, len(rows)), make([]string, len(rows))
	for i, c := range rows {
		ids[i], boxes[i] = c.ID, c.Sandbox
	}
	working, err := a.In(ctx).Turns().ListOldestOpen(ctx, ids)
	if err != nil {
		return nil, err
	}
	states, err := a.In(ctx).Threads().Sandboxes(ctx, boxes)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(list, rows, next, func(c store.Conversation) api.Thread { return threadOut(c, states[c.Sandbox], working[c.ID]) }), nil
}

func (a *handlers) getThread(ctx context.Context, in *ByThread) (*rest.Reply[api.Thread], error) {
	all, c, err := a.findThread(ctx, *in)
	if err != nil {
		return nil, err
	}
	return a.threadNow(ctx, all, c)
}

// threadNow returns a thread with its sandbox's state and its running turn.
func (a *handlers) threadNow(ctx context.Context, all chat.Conversations, c store.Conversation) (*rest.Reply[api.Thread], error) {
	c, err := all.Get(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	working, err := a.In(ctx).Turns().ListOldestOpen(ctx, []string{c.ID})
	if err != nil {
		return nil, err
	}
	s, err := a.In(ctx).ByIDOrDeleted(ctx, c.Sandbox)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, err
	}
	return &rest.Reply[api.Thread]{Body: threadOut(c, s, working[c.ID])}, nil
}

// threadOut converts a thread. The sandbox is zero until it is created.
func threadOut(c store.Conversation, s sandbox.Sandbox, turn string) api.Thread {
	status := sandbox.Pending
	if s.ID != "" {
		status = s.State
	}
	return api.Thread{
		ThreadID: c.Thread.Key, Workspace: c.Thread.Workspace, ChannelID: c.Thread.Channel, ConversationID: sandbox.PublicID(c.ID),
		SandboxID: sandbox.PublicID(c.Sandbox), SessionID: c.Session, Status: status.ThreadStatus(), TurnID: turn,
		AccountID: c.Account, AgentID: c.Agent, Template: c.Template, Stats: c.Stats.Stats(),
		PausedAt: access.TimePtr(s.PausedAt), ResumedAt: access.TimePtr(s.ResumedAt), DestroyedAt: access.TimePtr(s.DestroyedAt),
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
}

type listThreadMessages struct {
	ByThread
	Order string `query:"order" enum:"asc,desc" default:"asc" doc:"Sort order: oldest first or newest first"`
	rest.Paging
}

func (a *handlers) listThreadMessages(ctx context.Context, in *listThreadMessages) (*rest.Reply[api.List[api.Message]], error) {
	_, c, err := a.findThread(ctx, in.ByThread)
	if err != nil {
		return nil, err
	}
	return a.listMessages(ctx, &listMessages{ByConversation{sandbox.PublicID(c.ID)}, in.Order, in.Paging})
}

type listArtifacts struct {
	ByThread
	rest.Paging
}

func (a *handlers) listArtifacts(ctx context.Context, in *listArtifacts) (*rest.Reply[api.List[api.TurnArtifact]], error) {
	_, c, err := a.findThread(ctx, in.ByThread)
	if err != nil {
		return nil, err
	}
	turns, err := a.listTurns(ctx, &listTurns{ByConversation{sandbox.PublicID(c.ID)}, in.Paging})
	if err != nil {
		return nil, err
	}
	out := &rest.Reply[api.List[api.TurnArtifact]]{Body: api.List[api.TurnArtifact]{Items: []api.TurnArtifact{}, NextCursor: turns.Body.NextCursor}}
	for _, t := range turns.Body.Items {
		for _, f := range t.Artifacts {
			out.Body.Items = append(out.Body.Items, api.TurnArtifact{Artifact: f, TurnID: t.ID})
		}
	}
	return out, nil
}

func (a *handlers) stopThread(ctx context.Context, in *ByThread) (*rest.Reply[api.Thread], error) {
	all, c, err := a.findThread(ctx, *in)
	if err != nil {
		return nil, err
	}
	if err := a.Chat.Stop(ctx, c.Tenant, c.ID, "stopped by its user"); err != nil {
		return nil, err
	}
	s, err := a.In(ctx).ByID(ctx, c.Sandbox)
	switch {
	case errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDeleted): // there is nothing to stop
		return a.threadNow(ctx, all, c)
	case err != nil:
		return nil, err
	}
	if err := a.ClearTurns(ctx, s, false, ""); err != nil { // another conversation may use the sandbox
		return nil, err
	}
	h, _, err := a.Handle(ctx, sandbox.PublicID(s.ID))
	if err != nil {
		return nil, err
	}
	if _, err := h.Stop(ctx); err != nil {
		return nil, err
	}
	return a.threadNow(ctx, all, c)
}

type deleteThread struct {
	ByThread
	TerminateSandbox string `query:"terminate_sandbox" enum:"true,false" default:"true" doc:"Delete its own sandbox too"`
	access.Ending
}

func (a *handlers) deleteThread(ctx context.Context, in *deleteThread) (*struct{}, error) {
	_, c, err := a.findThread(ctx, in.ByThread)
	if err != nil {
		return nil, err
	}
	return a.deleteConversation(ctx, &deleteConversation{ByConversation{sandbox.PublicID(c.ID)}, in.TerminateSandbox, in.Ending})
}
