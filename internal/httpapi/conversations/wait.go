package conversations

import (
	"context"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/store"
)

// awaitTurn answers a prompt with the whole turn after its end. If the server drains before that, the client sends the
// request again, with the same Idempotency-Key.
func (a *handlers) awaitTurn(w http.ResponseWriter, r *http.Request, t store.Turn) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Ending, cancel)()
	done, content, err := a.Chat.Await(ctx, t)
	if err != nil && a.Ending.Err() != nil && r.Context().Err() == nil {
		err = fault.Errorf("wait for the turn", api.CodeShuttingDown, "the server shuts down; turn %s goes on", t.ID)
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	setTurnHeaders(w, t)
	w.Header().Set("Content-Type", "application/json")
	rest.WriteJSON(w, r, api.Answer{Turn: chat.Show(done), Text: textOf(content), Content: content})
}

// textOf returns the texts of a message, without the calls of tools between them.
func textOf(content []api.Block) string {
	var texts []string
	for _, b := range content {
		if b.Type == api.BlockText && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, strings.TrimSpace(b.Text))
		}
	}
	return strings.Join(texts, "\n\n")
}
