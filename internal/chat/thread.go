package chat

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// Limits of the parts of a thread's key, in bytes.
const (
	maxThreadKey = 190
	maxWorkspace = 64
	maxChannel   = 200
)

// CheckThread returns an error if the parts of a thread's key are not valid. A key stands in a URL's path, so it has no
// slash.
func CheckThread(t store.Thread) error {
	for _, part := range []struct {
		name, text string
		least, max int
	}{{"key", t.Key, 1, maxThreadKey}, {"workspace", t.Workspace, 0, maxWorkspace}, {"channel", t.Channel, 0, maxChannel}} {
		switch {
		case len(part.text) < part.least || len(part.text) > part.max:
			return fault.Errorf("check thread", api.CodeInvalidID, "a thread's %s has %d to %d bytes, this one %d", part.name, part.least, part.max, len(part.text))
		case !utf8.ValidString(part.text) || strings.ContainsFunc(part.text, func(r rune) bool { return r == '/' || !unicode.IsPrint(r) }):
			return fault.Errorf("check thread", api.CodeInvalidID, "a thread's %s has printable characters without slashes; %q has others", part.name, fault.Clip(part.text, 80))
		}
	}
	if t.Key == "." || t.Key == ".." {
		return fault.Errorf("check thread", api.CodeInvalidID, "%q is no key of a thread", t.Key)
	}
	return nil
}

// Thread returns the conversation of a thread, or ErrNotFound.
func (c Conversations) Thread(ctx context.Context, t store.Thread) (store.Conversation, error) {
	if err := CheckThread(t); err != nil {
		return store.Conversation{}, err
	}
	return c.scope().Threads().Get(ctx, t)
}

// findThread returns the conversation of a thread, and creates it if there is none. A prompt that is refused creates
// nothing.
func (c Conversations) findThread(ctx context.Context, t store.Thread, want api.CreateConversation, model string) (store.Conversation, error) {
	for {
		conv, err := c.Thread(ctx, t)
		if err == nil {
			return conv, c.agree(ctx, conv, want)
		}
		if !errors.Is(err, fault.ErrNotFound) {
			return conv, err
		}
		conv, err = c.newThread(ctx, t, want, model)
		if !errors.Is(err, fault.ErrDeleted) || ctx.Err() != nil { // ErrDeleted: it was created and deleted since
			return conv, err
		}
	}
}

func (c Conversations) newThread(ctx context.Context, t store.Thread, want api.CreateConversation, model string) (store.Conversation, error) {
	n, err := c.draft(ctx, want)
	if err != nil {
		return n, err
	}
	if _, err := c.model(ctx, n, model); err != nil {
		return n, err
	}
	ended, err := c.scope().Threads().CountEnded(ctx, t)
	if err != nil {
		return n, err
	}
	n.ID, n.Thread, n.Title = t.ID(c.tenant, ended), t, "thread "+t.Key
	if ended > 0 {
		if n, err = c.inherit(ctx, n, t.ID(c.tenant, ended-1)); err != nil {
			return n, err
		}
	}
	made, created, err := c.scope().CreateConversation(ctx, n)
	if err == nil && !created {
		err = c.agree(ctx, made, want)
	}
	return made, err
}

// inherit gives a thread that begins anew the sandbox that the deleted one has left. If that is to be deleted, too, the
// error is CodeDeleting.
func (c Conversations) inherit(ctx context.Context, n store.Conversation, before string) (store.Conversation, error) {
	s, err := c.scope().Threads().Sandbox(ctx, n.Thread)
	if errors.Is(err, fault.ErrNotFound) {
		return n, nil
	} else if err != nil {
		return n, err
	}
	waiting, why, err := c.scope().Outgoing().Count(ctx, before)
	if err == nil && waiting > 0 {
		err = fault.Errorf("begin thread", api.CodeDeleting, "the thread %s was deleted, and its sandbox %s is still to be deleted%s", n.Thread.Key, s.ID, because(why))
	}
	n.Sandbox, n.OwnSandbox = s.ID, true
	return n, err
}

// because returns the reason as the end of a sentence; empty for none.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
