package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/berthdev/berth/api"
)

const conversationsPath = "/api/v1/conversations"

// Conversations are the calls on conversations with agents. See [Conversations.Prompt] for the one that
// they are there for.
type Conversations struct{ c *Client }

// Create makes a conversation. Made is false when one with that id was there already. It makes no sandbox
// yet: the first prompt does.
func (s Conversations) Create(ctx context.Context, want api.CreateConversation) (conversation api.Conversation, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "create conversation", method: http.MethodPost, path: path{conversationsPath}, body: want}, &conversation)
	return conversation, got.status == http.StatusCreated, err
}

// Get reads one conversation.
func (s Conversations) Get(ctx context.Context, id string) (conversation api.Conversation, err error) {
	_, err = s.c.do(ctx, call{op: "get conversation", method: http.MethodGet, path: path{conversationsPath, id}}, &conversation)
	return conversation, err
}

// Patch changes a conversation: its title, or the sandbox that it works in from now on.
func (s Conversations) Patch(ctx context.Context, id string, want api.PatchConversation) (conversation api.Conversation, err error) {
	_, err = s.c.do(ctx, call{op: "change conversation", method: http.MethodPatch, path: path{conversationsPath, id}, body: want}, &conversation)
	return conversation, err
}

// ConversationFilter narrows a list. Empty fields do not narrow.
type ConversationFilter struct{ SandboxID string }

// List reads the conversations of the key's tenant, newest first, in pages as the reader goes on.
func (s Conversations) List(ctx context.Context, filter ConversationFilter) iter.Seq2[api.Conversation, error] {
	q := url.Values{}
	if filter.SandboxID != "" {
		q.Set("sandbox_id", filter.SandboxID)
	}
	return all[api.Conversation](ctx, s.c, "list conversations", q, conversationsPath)
}

// KeepSandbox keeps the sandbox of a conversation that is deleted.
func KeepSandbox() EndOption { return func(q url.Values) { q.Set("terminate_sandbox", "false") } }

// EndSandbox ends the sandbox of a conversation that is deleted, whatever the server does by itself. One that
// others work in stays.
func EndSandbox() EndOption { return func(q url.Values) { q.Set("terminate_sandbox", "true") } }

// Delete cancels what runs in a conversation and removes it with its messages.
func (s Conversations) Delete(ctx context.Context, id string, opts ...EndOption) error {
	got, err := s.c.do(ctx, call{op: "delete conversation", method: http.MethodDelete, path: path{conversationsPath, id}, query: ending(opts)}, nil)
	if got.doneBefore(err) {
		return nil
	}
	return err
}

// Messages reads what was said, oldest first, in pages as the reader goes on.
func (s Conversations) Messages(ctx context.Context, id string) iter.Seq2[api.Message, error] {
	return s.messages(ctx, id, nil)
}

// Newest reads what was said, newest first.
func (s Conversations) Newest(ctx context.Context, id string) iter.Seq2[api.Message, error] {
	return s.messages(ctx, id, url.Values{"order": {"desc"}})
}

func (s Conversations) messages(ctx context.Context, id string, query url.Values) iter.Seq2[api.Message, error] {
	return all[api.Message](ctx, s.c, "read messages", query, conversationsPath, id, "messages")
}

// Message reads one message.
func (s Conversations) Message(ctx context.Context, id, message string) (got api.Message, err error) {
	_, err = s.c.do(ctx, call{op: "get message", method: http.MethodGet, path: path{conversationsPath, id, "messages", message}}, &got)
	return got, err
}

// Turns reads the turns of a conversation, newest first, in pages as the reader goes on.
func (s Conversations) Turns(ctx context.Context, id string) iter.Seq2[api.Turn, error] {
	return all[api.Turn](ctx, s.c, "list turns", nil, conversationsPath, id, "turns")
}

// Turn reads one turn.
func (s Conversations) Turn(ctx context.Context, id, turn string) (got api.Turn, err error) {
	_, err = s.c.do(ctx, call{op: "get turn", method: http.MethodGet, path: turnPath(id, turn)}, &got)
	return got, err
}

// Export begins to read the whole conversation, as "json" or "markdown". What is lost on the way is not asked
// for again.
func (s Conversations) Export(ctx context.Context, id, format string) (*Download, error) {
	d, err := s.c.download(ctx, call{
		op: "export conversation", method: http.MethodGet, path: path{conversationsPath, id, "export"}, query: url.Values{"format": {format}},
	}, nil)
	if err == nil {
		d.Size = -1
	}
	return d, err
}

// Ensure makes the conversation's sandbox run. Made tells whether there was none before.
func (s Conversations) Ensure(ctx context.Context, id string) (sandbox api.ConversationSandbox, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "ensure sandbox", method: http.MethodPost, path: path{conversationsPath, id, "sandbox"}}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// UsageFilter says what of the usage is asked for. Days are such as 2026-11-15, in UTC, both included; empty
// ones are the server's: the last 30 days. By is any of day, model and conversation; none: day and model.
type UsageFilter struct {
	From, To       string
	By             []string
	ConversationID string
}

// Usage reads what conversations used.
func (c *Client) Usage(ctx context.Context, filter UsageFilter) (report api.UsageReport, err error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"from": filter.From, "to": filter.To, "group_by": strings.Join(filter.By, ","), "conversation_id": filter.ConversationID,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	_, err = c.do(ctx, call{op: "read usage", method: http.MethodGet, path: path{"/api/v1/usage"}, query: q}, &report)
	return report, err
}
