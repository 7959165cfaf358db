package transcripttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
)

// patience limits one call on a busy machine.
const patience = 2 * time.Minute

const acme, globex = "acme", "globex"

// suite holds the store and helpers of one sub-test.
type suite struct {
	*testing.T
	s transcript.Store
}

func callContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (s *suite) ctx() context.Context { return callContext(s.T) }

// must ends the sub-test on an error.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// check ends the sub-test unless ok.
func (s *suite) check(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Fatalf(format, args...)
	}
}

// code ends the sub-test unless the error has the code.
func (s *suite) code(err error, want api.Code) {
	s.Helper()
	s.check(err != nil && fault.CodeOf(err) == want, "the error is %v, not of code %s", err, want)
}

func (s *suite) put(m api.Message) api.Message {
	s.Helper()
	s.must(s.s.Put(s.ctx(), acme, m))
	return m
}

// has checks that a message equals the one that was put.
func (s *suite) has(want api.Message) {
	s.Helper()
	got, err := s.s.Get(s.ctx(), acme, want.ConversationID, want.ID)
	s.must(err)
	s.same(got, want)
}

func (s *suite) same(got, want api.Message) {
	s.Helper()
	s.check(text(got) == text(want), "message %s is %s, not %s", want.ID, shorten(got), shorten(want))
}

// hasNot checks that a message does not exist.
func (s *suite) hasNot(m api.Message) {
	s.Helper()
	got, err := s.s.Get(s.ctx(), acme, m.ConversationID, m.ID)
	s.check(fault.CodeOf(err) == api.CodeNotFound, "message %s: %s, %v", m.ID, shorten(got), err)
}

// pages reads a conversation page by page.
func (s *suite) pages(conversation string, page transcript.Page) (ids []string) {
	s.Helper()
	seen := map[string]bool{}
	for {
		messages, next, err := s.s.List(s.ctx(), acme, conversation, page)
		s.must(err)
		limit, _ := page.Check()
		s.check(len(messages) <= limit, "a page of %d has %d messages", limit, len(messages))
		s.check(next == "" || len(messages) > 0 && messages[len(messages)-1].ID == next, "the next page begins at %q; this one ends otherwise", next)
		for _, m := range messages {
			s.check(!seen[m.ID], "message %s is in two pages", m.ID)
			seen[m.ID] = true
			ids = append(ids, m.ID)
		}
		if next == "" {
			return ids
		}
		page.After = next
	}
}

// message returns a message with a value in every field.
func message(conversation string) api.Message {
	return api.Message{
		ID: store.NewID(), ConversationID: conversation, TurnID: store.NewID(), Role: api.RoleAssistant,
		Content: []api.Block{
			{Type: api.BlockThinking, Text: "hm"},
			{Type: api.BlockText, Text: "It is done."},
			{Type: api.BlockToolUse, ID: "call-1", Name: "bash", Input: json.RawMessage(`{"command":"ls -l"}`)},
			{Type: api.BlockToolResult, ToolUseID: "call-1", Text: "total 0", IsError: true, Truncated: true},
		},
		Status: api.TurnFailed, Error: "it broke", Model: "some-model",
		Usage:   api.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, Estimated: true},
		CostUSD: 0.123456789, DurationMS: 1234, CreatedAt: time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC),
	}
}

// textMessage returns a message of one text.
func textMessage(conversation, text string) api.Message {
	return api.Message{
		ID: store.NewID(), ConversationID: conversation, Role: api.RoleUser, Status: api.TurnCompleted,
		Content: []api.Block{{Type: api.BlockText, Text: text}}, CreatedAt: time.Unix(1_700_000_000, 0).UTC(),
	}
}

// sizedMessage returns a message whose JSON has the given size. Its text is mostly random multi-byte characters.
func sizedMessage(conversation string, size int) api.Message {
	m := textMessage(conversation, "")
	m.Content[0].Text = " "
	room := size - (len(text(m)) - 1)
	var b strings.Builder
	for b.Len()+4 < room {
		b.WriteRune(0x10000 + rand.Int32N(0xFFFF))
	}
	b.WriteString(strings.Repeat("x", room-b.Len()))
	m.Content[0].Text = b.String()
	return m
}

// text returns the message as JSON, the form that stores keep.
func text(m api.Message) string {
	body, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func shorten(m api.Message) string {
	t := text(m)
	if len(t) <= 300 {
		return t
	}
	return fmt.Sprintf("%s… (%d bytes)", t[:300], len(t))
}
