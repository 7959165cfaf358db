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

// Conversations groups the calls for conversations with agents. The main one is [Conversations.Prompt].
type Conversations struct{ c *Client }

// Create creates a conversation. made is false if a conversation with the id existed. Create makes no sandbox; the
// first prompt does.
func (s Conversations) Create(ctx context.Context, want api.CreateConversation) (conversation api.Conversation, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "create conversation", method: http.MethodPost, path: path{conversationsPath}, body: want}, &conversation)
	return conversation, got.status == http.StatusCreated, err
}

// Get gets one conversation.
func (s Conversations) Get(ctx context.Context, id string) (conversation api.Conversation, err error) {
	_, err = s.c.do(ctx, call{op: "get conversation", method: http.MethodGet, path: path{conversationsPath, id}}, &conversation)
	return conversation, err
}

// Patch changes the title of a conversation, or its sandbox for later turns.
func (s Conversations) Patch(ctx context.Context, id string, want api.PatchConversation) (conversation api.Conversation, err error) {
	_, err = s.c.do(ctx, call{op: "change conversation", method: http.MethodPatch, path: path{conversationsPath, id}, body: want}, &conversation)
	return conversation, err
}

// ConversationFilter selects conversations. An empty field selects all.
type ConversationFilter struct{ SandboxID string }

// List yields the conversations of the key's tenant, newest first.
func (s Conversations) List(ctx context.Context, filter ConversationFilter) iter.Seq2[api.Conversation, error] {
	q := url.Values{}
	if filter.SandboxID != "" {
		q.Set("sandbox_id", filter.SandboxID)
	}
	return all[api.Conversation](ctx, s.c, "list conversations", q, conversationsPath)
}

// KeepSandbox makes a delete of a conversation keep the conversation's sandbox.
func KeepSandbox() EndOption { return func(q url.Values) { q.Set("terminate_sandbox", "false") } }

// EndSandbox makes a delete of a conversation also end the conversation's sandbox, whatever the server's default is.
// A sandbox that other conversations use stays.
func EndSandbox() EndOption { return func(q url.Values) { q.Set("terminate_sandbox", "true") } }

// Delete cancels the running and queued turns of a conversation and deletes it with its messages.
func (s Conversations) Delete(ctx context.Context, id string, opts ...EndOption) error {
	got, err := s.c.do(ctx, call{op: "delete conversation", method: http.MethodDelete, path: path{conversationsPath, id}, query: endQuery(opts)}, nil)
	if got.doneBefore(err) {
		return nil
	}
	return err
}

// Messages yields the messages of a conversation, oldest first.
func (s Conversations) Messages(ctx context.Context, id string) iter.Seq2[api.Message, error] {
	return s.messages(ctx, id, nil)
}

// Newest yields the messages of a conversation, newest first.
func (s Conversations) Newest(ctx context.Context, id string) iter.Seq2[api.Message, error] {
	return s.messages(ctx, id, url.Values{"order": {"desc"}})
}

func (s Conversations) messages(ctx context.Context, id string, query url.Values) iter.Seq2[api.Message, error] {
	return all[api.Message](ctx, s.c, "read messages", query, conversationsPath, id, "messages")
}

// Message gets one message.
func (s Conversations) Message(ctx context.Context, id, message string) (got api.Message, err error) {
	_, err = s.c.do(ctx, call{op: "get message", method: http.MethodGet, path: path{conversationsPath, id, "messages", message}}, &got)
	return got, err
}

// Turns yields the turns of a conversation, newest first.
func (s Conversations) Turns(ctx context.Context, id string) iter.Seq2[api.Turn, error] {
	return all[api.Turn](ctx, s.c, "list turns", nil, conversationsPath, id, "turns")
}

// Turn gets one turn.
func (s Conversations) Turn(ctx context.Context, id, turn string) (got api.Turn, err error) {
	_, err = s.c.do(ctx, call{op: "get turn", method: http.MethodGet, path: turnPath(id, turn)}, &got)
	return got, err
}

// Export starts to read the whole conversation, as "json" or "markdown". An interrupted read is not resumed.
func (s Conversations) Export(ctx context.Context, id, format string) (*Download, error) {
	d, err := s.c.download(ctx, call{
		op: "export conversation", method: http.MethodGet, path: path{conversationsPath, id, "export"}, query: url.Values{"format": {format}},
	}, nil)
	if err == nil {
		d.Size = -1
	}
	return d, err
}

// Ensure creates the conversation's sandbox if there is none, and starts it. made reports whether the sandbox is new.
func (s Conversations) Ensure(ctx context.Context, id string) (sandbox api.ConversationSandbox, made bool, err error) {
	got, err := s.c.do(ctx, call{op: "ensure sandbox", method: http.MethodPost, path: path{conversationsPath, id, "sandbox"}}, &sandbox)
	return sandbox, got.status == http.StatusCreated, err
}

// UsageFilter selects usage. From and To are the first and last day in UTC, such as 2026-11-15; empty: the last 30
// days. By groups the usage by any of day, model and conversation; empty: day and model.
type UsageFilter struct {
	From, To       string
	By             []string
	ConversationID string
}

// Usage gets the usage of the tenant's conversations.
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
