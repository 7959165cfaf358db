package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/turn"
	"github.com/danielgtaylor/huma/v2"
)

func (a *Handler) addTurns(op opMaker) {
	const one = "/{id}/turns/{turn_id}"
	a.addPrompts(op)
	serve(a, op(http.MethodGet, "/{id}/turns", "list-turns", api.ScopeRead, "List a conversation's turns, newest first", ofConversation(api.CodeInvalidCursor)...), a.listTurns)
	serve(a, op(http.MethodGet, one, "get-turn", api.ScopeRead, "How a turn is doing", ofConversation()...), a.getTurn)

	cancel := op(http.MethodPost, one+"/cancel", "cancel-turn", api.ScopeWrite, "Ask a turn to end", ofConversation(api.CodeTurnFinished)...)
	cancel.Description = "Answers at once; the turn's last event tells when it has ended. What the agent had done by then is kept."
	cancel.Status = http.StatusAccepted
	serve(a, cancel, a.cancelTurn)

	watch := op(http.MethodGet, one+"/events", "stream-turn", api.ScopeRead, "Watch a turn", ofConversation()...)
	watch.Description = "Every event of the turn, from its first on or from behind the one that is given, also after its end. " +
		"The id of an event, given as Last-Event-ID or after, reads on behind it; behind the last one the answer is 204. " +
		"When the events are no longer kept, the only one is a resync: the conversation's messages have what was said."
	watch.Timeout, watch.Also = unlimited, nothingBehind
	describeEvents(a)
	a.serveRaw(watch, "text/event-stream", a.watchTurn, inConversation, inPath("turn_id"), streams[api.TurnEvent](a),
		inQuery("after", "string", "The id of the event to read on behind, or its number alone; 0 is the beginning"), inRaw)
}

var inRaw = inQuery("raw", "boolean", "With what the agent itself wrote, as raw")

// describeEvents says that an event always has a type, and only that.
func describeEvents(a *Handler) {
	newBody[api.TurnEvent](a, func(s *huma.Schema) { s.Required = []string{"type"} })
}

// findTurn finds a turn of a conversation. That of another one is not found.
func (a *Handler) findTurn(ctx context.Context, conversation, id string) (t store.Turn, err error) {
	_, c, err := a.findConversation(ctx, conversation)
	if err != nil {
		return t, err
	}
	if id, err = sandbox.ParseID(id); err != nil {
		return t, err
	}
	t, err = a.in(ctx).Turn(ctx, id)
	if err == nil && t.Conversation != c.ID {
		err = sandbox.Errorf("read turn", api.CodeNotFound, "there is no turn %s", id)
	}
	return t, err
}

type listTurns struct {
	ByConversation
	Paging
}

func (a *Handler) listTurns(ctx context.Context, in *listTurns) (*reply[api.List[api.Turn]], error) {
	_, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := "turns/" + c.ID
	page, err := in.storePage(list)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Turns(ctx, c.ID, page)
	if err != nil {
		return nil, err
	}
	return listOf(list, rows, next, turn.Show), nil
}

// ByTurn names a turn of a conversation in a path.
type ByTurn struct {
	ByConversation
	TurnID string `path:"turn_id" doc:"The turn's id"`
}

func (a *Handler) getTurn(ctx context.Context, in *ByTurn) (*reply[api.Turn], error) {
	t, err := a.findTurn(ctx, in.ID, in.TurnID)
	if err != nil {
		return nil, err
	}
	return &reply[api.Turn]{turn.Show(t)}, nil
}

type cancelTurn struct {
	ByTurn
	Body *api.CancelTurn
}

func (a *Handler) cancelTurn(ctx context.Context, in *cancelTurn) (*reply[api.Turn], error) {
	t, err := a.findTurn(ctx, in.ID, in.TurnID)
	if err != nil {
		return nil, err
	}
	reason := "cancelled by its user"
	if in.Body != nil && in.Body.Reason != "" {
		reason = in.Body.Reason
	}
	if t, err = a.Turns.Cancel(ctx, t.Tenant, t.ID, reason); err != nil {
		return nil, err
	}
	return &reply[api.Turn]{turn.Show(t)}, nil
}
