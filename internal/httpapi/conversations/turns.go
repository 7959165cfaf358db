package conversations

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

func (a *handlers) addTurns(op access.OperationFunc) {
	const one = "/{id}/turns/{turn_id}"
	a.addPrompts(op)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/turns", "list-turns", api.ScopeRead, "List a conversation's turns, newest first", conversationProblems(api.CodeInvalidCursor)...), a.listTurns)
	rest.Serve(a.Spec, op(http.MethodGet, one, "get-turn", api.ScopeRead, "Get a turn", conversationProblems()...), a.getTurn)

	cancel := op(http.MethodPost, one+"/cancel", "cancel-turn", api.ScopeWrite, "Cancel a turn", conversationProblems(api.CodeTurnFinished)...)
	cancel.Description = "Returns at once; the turn.finished event reports the end. The agent's work until then is kept."
	cancel.Status = http.StatusAccepted
	rest.Serve(a.Spec, cancel, a.cancelTurn)

	watch := op(http.MethodGet, one+"/events", "stream-turn", api.ScopeRead, "Stream a turn's events", conversationProblems()...)
	watch.Description = "Streams all events of the turn, from the first one or after a given one, also when the turn has ended. " +
		"Send the id of an event as Last-Event-ID or after to continue behind it; the answer is 204 if there are no more. " +
		"If the events are no longer stored, the only event is resync; read the conversation's messages instead."
	watch.Timeout, watch.Also = exchange.Unlimited, rest.NoMoreEvents
	a.ServeRaw(watch, "text/event-stream", a.watchTurn, inConversation, rest.InPath("turn_id"), rest.Streams[api.TurnEvent](a.Spec, api.TurnEvents),
		rest.InQuery("after", "string", "Continue after this event: its id, or its number; 0 is the beginning"), inRaw)
}

var inRaw = rest.InQuery("raw", "boolean", "Include the agent's own output in the field raw")

// findTurn finds a turn of a conversation. A turn of another conversation is not found.
func (a *handlers) findTurn(ctx context.Context, conversation, id string) (t store.Turn, err error) {
	_, c, err := a.findConversation(ctx, conversation)
	if err != nil {
		return t, err
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return t, err
	}
	t, err = a.In(ctx).Turns().Get(ctx, id)
	if err == nil && t.Conversation != c.ID {
		err = fault.Errorf("read turn", api.CodeNotFound, "there is no turn %s", id)
	}
	return t, err
}

type listTurns struct {
	ByConversation
	rest.Paging
}

func (a *handlers) listTurns(ctx context.Context, in *listTurns) (*rest.Reply[api.List[api.Turn]], error) {
	_, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := "turns/" + sandbox.PublicID(c.ID)
	page, err := in.StorePage(list)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Turns().List(ctx, c.ID, page)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(list, rows, next, chat.Show), nil
}

// ByTurn is the path parameters of routes for one turn.
type ByTurn struct {
	ByConversation
	TurnID string `path:"turn_id" doc:"The turn's id"`
}

func (a *handlers) getTurn(ctx context.Context, in *ByTurn) (*rest.Reply[api.Turn], error) {
	t, err := a.findTurn(ctx, in.ID, in.TurnID)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Turn]{Body: chat.Show(t)}, nil
}

type cancelTurn struct {
	ByTurn
	Body *api.CancelTurn
}

func (a *handlers) cancelTurn(ctx context.Context, in *cancelTurn) (*rest.Reply[api.Turn], error) {
	t, err := a.findTurn(ctx, in.ID, in.TurnID)
	if err != nil {
		return nil, err
	}
	reason := "cancelled by its user"
	if in.Body != nil && in.Body.Reason != "" {
		reason = in.Body.Reason
	}
	if t, err = a.Chat.Cancel(ctx, t.Tenant, t.ID, reason); err != nil {
		return nil, err
	}
	return &rest.Reply[api.Turn]{Body: chat.Show(t)}, nil
}
