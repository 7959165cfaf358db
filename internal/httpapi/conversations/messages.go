package conversations

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/transcript"
)

func (a *handlers) addMessages(op access.OperationFunc) {
	list := op(http.MethodGet, "/{id}/messages", "list-messages", api.ScopeRead, "List a conversation's messages", conversationProblems(api.CodeInvalidCursor)...)
	list.Description = "A page can be shorter than its limit, because messages can be long. Continue while there is a next_cursor."
	rest.Serve(a.Spec, list, a.listMessages)
	rest.Serve(a.Spec, op(http.MethodGet, "/{id}/messages/{message_id}", "get-message", api.ScopeRead, "Get a message", conversationProblems()...), a.getMessage)
}

type listMessages struct {
	ByConversation
	Order string `query:"order" enum:"asc,desc" default:"asc" doc:"Sort order: oldest first or newest first"`
	rest.Paging
}

func (a *handlers) listMessages(ctx context.Context, in *listMessages) (*rest.Reply[api.List[api.Message]], error) {
	all, c, err := a.findConversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list := "messages/" + in.Order + "/" + sandbox.PublicID(c.ID)
	after, err := rest.ParseCursor(list, in.Cursor)
	if err != nil {
		return nil, err
	}
	messages, next, err := all.Messages(ctx, c.ID, transcript.Page{After: after.ID, Newest: in.Order == "desc", Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &rest.Reply[api.List[api.Message]]{Body: api.List[api.Message]{Items: append([]api.Message{}, messages...)}}
	if next != "" {
		out.Body.NextCursor = rest.Cursor{List: list, ID: next}.String()
	}
	return out, nil
}

type oneMessage struct {
	ByConversation
	MessageID string `path:"message_id" doc:"The message's id"`
}

func (a *handlers) getMessage(ctx context.Context, in *oneMessage) (*rest.Reply[api.Message], error) {
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
	return &rest.Reply[api.Message]{Body: m}, nil
}
