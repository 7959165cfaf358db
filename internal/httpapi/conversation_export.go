package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/conversation"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/danielgtaylor/huma/v2"
)

func (a *Handler) addExport(op opMaker) {
	export := op(http.MethodGet, "/{id}/export", "export-conversation", api.ScopeRead, "Download a conversation with all its messages", ofConversation()...)
	export.Timeout = unlimited
	a.serveRaw(export, "application/json", a.exportConversation, inConversation, answers[api.ConversationExport](a),
		func(o *huma.Operation) { o.Responses["200"].Content["text/markdown"] = &huma.MediaType{} },
		inQuery("format", "string", "json, the default, or markdown"))
}

// exporter writes a conversation part by part: it may be long.
type exporter interface {
	contentType() string
	ending() string // of the file's name
	begin(w io.Writer, c api.Conversation) error
	message(w io.Writer, m api.Message, first bool) error
	end(w io.Writer) error
}

func exporterOf(r *http.Request) (exporter, error) {
	if err := readQuery(r, "format"); err != nil {
		return nil, err
	}
	switch r.URL.Query().Get("format") {
	case "", "json":
		return jsonExport{}, nil
	case "markdown":
		return markdownExport{}, nil
	}
	return nil, invalidField("query.format", "expected json or markdown")
}

func (a *Handler) exportConversation(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	as, err := exporterOf(r)
	var c api.Conversation
	var pages *pages
	if err == nil {
		c, pages, err = a.beginExport(ctx, r.PathValue("id"))
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", as.contentType())
	h.Set("Content-Disposition", attachment("conversation-"+c.ID+"."+as.ending()))
	out := bufio.NewWriterSize(a.patient(w), 64<<10)
	if err := export(ctx, out, as, c, pages); err != nil {
		// Once it has begun, no problem can be told: the client must see that it is not whole.
		exchangeOf(ctx).log.WarnContext(ctx, "export cut off", "error", a.clean(err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// beginExport reads the conversation and its first messages.
func (a *Handler) beginExport(ctx context.Context, id string) (api.Conversation, *pages, error) {
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

// pages reads the messages of a conversation, the oldest first, a page at a time.
type pages struct {
	all      conversation.Conversations
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
func (jsonExport) ending() string      { return "json" }

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

// writeParts writes texts as they are and everything else as JSON.
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
