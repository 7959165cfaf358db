package httpapi

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/transcript"
)

func (a *Handler) addMessages(op opMaker) {
	list := op(http.MethodGet, "/{id}/messages", "list-messages", api.ScopeRead, "List a conversation's messages", ofConversation(api.CodeInvalidCursor)...)
	list.Description = "A page may be shorter than its limit and not be the last: messages can be long. Read on while there is a next_cursor."
	serve(a, list, a.listMessages)
	serve(a, op(http.MethodGet, "/{id}/messages/{message_id}", "get-message", api.ScopeRead, "Read one message", ofConversation()...), a.getMessage)
}

type listMessages struct {
	ByConversation
	Order string `query:"order" enum:"asc,desc" default:"asc" doc:"The oldest or the newest first"`
	Paging
}

func (a *Handler) listMessages(ctx context.Context, in *listMessages) (*reply[api.List[api.Message]], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := "messages/" + in.Order + "/" + c.ID
	after, err := parseCursor(list, in.Cursor)
	if err != nil {
		return nil, err
	}
	messages, next, err := all.Messages(ctx, c.ID, transcript.Page{After: after.id, Newest: in.Order == "desc", Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &reply[api.List[api.Message]]{api.List[api.Message]{Items: append([]api.Message{}, messages...)}}
	if next != "" {
		out.Body.NextCursor = cursor{list: list, id: next}.String()
	}
	return out, nil
}

type oneMessage struct {
	ByConversation
	MessageID string `path:"message_id" doc:"The message's id"`
}

func (a *Handler) getMessage(ctx context.Context, in *oneMessage) (*reply[api.Message], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	id, err := sandbox.ParseID(in.MessageID)
	if err != nil {
		return nil, err
	}
	m, err := all.Message(ctx, c.ID, id)
	if err != nil {
		return nil, err
	}
	return &reply[api.Message]{m}, nil
}
