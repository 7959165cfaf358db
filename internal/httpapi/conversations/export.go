package conversations

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
	"github.com/berthdev/berth/internal/transcript"
)

func (a *handlers) addExport(op access.OperationFunc) {
	export := op(http.MethodGet, "/{id}/export", "export-conversation", api.ScopeRead, "Export a conversation", conversationProblems()...)
	export.Timeout = exchange.Unlimited
	a.ServeRaw(export, "application/json", a.exportConversation, inConversation, rest.Answers[api.ConversationExport](a.Spec),
		func(o *huma.Operation) { o.Responses["200"].Content["text/markdown"] = &huma.MediaType{} },
		rest.InQuery("format", "string", "The format: json (default) or markdown"))
}

// exporter writes a conversation in parts, because it may be long.
type exporter interface {
	contentType() string
	extension() string
	begin(w io.Writer, c api.Conversation) error
	message(w io.Writer, m api.Message, first bool) error
	end(w io.Writer) error
}

func exporterOf(r *http.Request) (exporter, error) {
	if err := rest.ReadQuery(r, "format"); err != nil {
		return nil, err
	}
	switch r.URL.Query().Get("format") {
	case "", "json":
		return jsonExport{}, nil
	case "markdown":
		return markdownExport{}, nil
	}
	return nil, exchange.InvalidField("query.format", "expected json or markdown")
}

func (a *handlers) exportConversation(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	as, err := exporterOf(r)
	var c api.Conversation
	var pages *pages
	if err == nil {
		c, pages, err = a.beginExport(ctx, r.PathValue("id"))
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", as.contentType())
	h.Set("Content-Disposition", rest.Attachment("conversation-"+c.ID+"."+as.extension()))
	out := bufio.NewWriterSize(stream.Progressing(w, a.TransferTimeout), 64<<10)
	if err := export(ctx, out, as, c, pages); err != nil {
		// The status was sent already. Cutting the connection shows the client that the export is incomplete.
		exchange.Of(ctx).Log.WarnContext(ctx, "export cut off", "error", a.Redactor.String(err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// beginExport reads the conversation and its first messages.
func (a *handlers) beginExport(ctx context.Context, id string) (api.Conversation, *pages, error) {
	all, row, err := a.findConversation(ctx, id)
	if err == nil {
		row, err = all.Get(ctx, row.ID)
	}
	if err != nil {
		return api.Conversation{}, nil, err
	}
	c, err := a.conversationNow(ctx, row)
	if err != nil {
		return c, nil, err
	}
	p := &pages{all: all, id: row.ID}
	return c, p, p.next(ctx)
}

// pages reads the messages of a conversation page by page, oldest first.
type pages struct {
	all      chat.Conversations
	id       string
	messages []api.Message
	after    string
}

func (p *pages) next(ctx context.Context) (err error) {
	p.messages, p.after, err = p.all.Messages(ctx, p.id, transcript.Page{After: p.after, Limit: transcript.MaxLimit})
	return err
}

func export(ctx context.Context, out *bufio.Writer, as exporter, c api.Conversation, p *pages) error {
	if err := as.begin(out, c); err != nil {
		return err
	}
	for first := true; ; {
		for _, m := range p.messages {
			if err := as.message(out, m, first); err != nil {
				return err
			}
			first = false
		}
		if p.after == "" {
			break
		}
		if err := p.next(ctx); err != nil {
			return err
		}
	}
	if err := as.end(out); err != nil {
		return err
	}
	return out.Flush()
}

// jsonExport writes an api.ConversationExport.
type jsonExport struct{}

func (jsonExport) contentType() string { return "application/json" }

func (jsonExport) extension() string { return "json" }

func (jsonExport) begin(w io.Writer, c api.Conversation) error {
	return writeParts(w, `{"conversation":`, c, `,"messages":[`)
}

func (jsonExport) message(w io.Writer, m api.Message, first bool) error {
	if first {
		return writeParts(w, m)
	}
	return writeParts(w, ",", m)
}

func (jsonExport) end(w io.Writer) error { return writeParts(w, "]}\n") }

// writeParts writes strings unchanged and other values as JSON.
func writeParts(w io.Writer, parts ...any) error {
	for _, part := range parts {
		text, is := part.(string)
		data := []byte(text)
		if !is {
			var err error
			if data, err = json.Marshal(part); err != nil {
				return err
			}
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}
