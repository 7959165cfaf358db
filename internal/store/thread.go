package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Thread is the key of a conversation in a chat system.
type Thread struct {
	Workspace string // of the chat system; may be empty
	Key       string // unique in the workspace; empty: the conversation is no thread
	Channel   string // for users; it identifies nothing
}

// Owner returns the owner of the conversation's own sandbox. That of a thread is the same after the thread was deleted
// and began anew, so that it never has two sandboxes.
func (c Conversation) Owner() sandbox.Owner {
	if c.Thread.Key == "" {
		return sandbox.Owner{Tenant: string(c.Tenant), Kind: sandbox.OwnerConversation, ID: c.ID}
	}
	return c.Thread.owner(c.Tenant)
}

// owner returns the owner of the thread's sandbox. Neither workspaces nor keys have slashes.
func (t Thread) owner(tenant TenantID) sandbox.Owner {
	id := t.Key
	if t.Workspace != "" {
		id = t.Workspace + "/" + t.Key
	}
	return sandbox.Owner{Tenant: string(tenant), Kind: sandbox.OwnerThread, ID: id}
}

// threadOf returns the thread of an owner, without its channel.
func threadOf(o sandbox.Owner) Thread {
	workspace, key, found := strings.Cut(o.ID, "/")
	if !found {
		workspace, key = "", o.ID
	}
	return Thread{Workspace: workspace, Key: key}
}

// threadSpace is the name space of the ids of threads.
var threadSpace = uuid.MustParse("8b6a1c0e-7f53-5d0b-9c2e-3d4f6e0a9b71")

// ID returns the id of a thread's conversation, after so many that were deleted.
func (t Thread) ID(tenant TenantID, ended int64) string {
	name := string(tenant) + "\x00" + t.Workspace + "\x00" + t.Key
	if ended > 0 {
		name += "\x00" + strconv.FormatInt(ended, 10)
	}
	return uuid.NewSHA1(threadSpace, []byte(name)).String()
}

// Threads holds the conversations of a scope that are threads, and the sandboxes of conversations.
type Threads struct{ scope Scope }

// Threads returns the scope's threads.
func (s Scope) Threads() Threads { return Threads{s} }

// Get returns the conversation of a thread, or ErrNotFound. The thread's channel is not compared.
func (th Threads) Get(ctx context.Context, t Thread) (Conversation, error) {
	const op = "read thread"
	s := th.scope
	c, err := first(ctx, s.db.read, s.db.scanConversation, `select `+conversationColumns+` from conversations
		where tenant = $1 and workspace = $2 and thread = $3 and thread <> '' and deleted_at is null`, s.tenant, t.Workspace, t.Key)
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.account != "" && c.Account != s.account {
		return Conversation{}, notFound(op, "thread", t.Key)
	}
	return c, s.db.fail(op, err)
}

// CountEnded returns the number of deleted conversations that were the thread.
func (th Threads) CountEnded(ctx context.Context, t Thread) (int64, error) {
	s := th.scope
	n, err := first(ctx, s.db.read, scanOne[int64], `select count(*) from conversations
		where tenant = $1 and workspace = $2 and thread = $3 and thread <> '' and deleted_at is not null`, s.tenant, t.Workspace, t.Key)
	return n, s.db.fail("count ended threads", err)
}

// ThreadFilter narrows a list of threads. Empty fields do not narrow.
type ThreadFilter struct{ Workspace, Channel string }

// List returns one page of the tenant's threads, newest first, and the position of the next page.
func (th Threads) List(ctx context.Context, f ThreadFilter, page Page) ([]Conversation, Position, error) {
	l := conversationsOf(th.scope)
	l.conditions = append(l.conditions, "thread <> ''")
	if f.Workspace != "" {
		l.where("workspace = $%d", f.Workspace)
	}
	if f.Channel != "" {
		l.where("channel = $%d", f.Channel)
	}
	items, next, err := l.read(ctx, th.scope.db.read, page)
	return items, next, th.scope.db.fail("list threads", err)
}

// Sandboxes returns the sandboxes with the ids, by id, also deleted ones. It has no entry for an unknown id.
func (th Threads) Sandboxes(ctx context.Context, ids []string) (map[string]sandbox.Sandbox, error) {
	s, found := th.scope, map[string]sandbox.Sandbox{}
	if len(ids) == 0 {
		return found, nil
	}
	list, marks := inList(2, ids)
	boxes, err := all(ctx, s.db.read, s.db.scanSandbox, `select `+sandboxColumns+` from sandboxes where tenant = $1 and id in (`+marks+`)`, append([]any{s.tenant}, list...)...)
	for _, sb := range boxes {
		found[sb.ID] = sb
	}
	return found, s.db.fail("read sandboxes", err)
}

// ConversationOf returns the id of the conversation that a sandbox was made for, or an empty string.
func (th Threads) ConversationOf(ctx context.Context, sandbox string) (string, error) {
	s := th.scope
	id, err := first(ctx, s.db.read, scanOne[string], `select id from conversations
		where tenant = $1 and sandbox = $2 and own_sandbox and deleted_at is null order by created_at, id limit 1`, s.tenant, sandbox)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, s.db.fail("find the sandbox's conversation", err)
}

// Sandbox returns the sandbox of a thread, or ErrNotFound. A thread that was deleted may have left it.
func (th Threads) Sandbox(ctx context.Context, t Thread) (sandbox.Sandbox, error) {
	return th.scope.ByOwner(ctx, sandbox.OwnerThread, t.owner(th.scope.tenant).ID)
}

// OwnerDeleted reports whether the owner of a sandbox was deleted: its conversation, or the thread, which may have begun
// anew since the conversation with the id was deleted.
func (th Threads) OwnerDeleted(ctx context.Context, o sandbox.Owner, id string) (bool, error) {
	s := th.scope
	if o.Kind == sandbox.OwnerThread {
		if _, err := th.Get(ctx, threadOf(o)); errors.Is(err, fault.ErrNotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		was, err := first(ctx, s.db.read, func(row scanner) (t Thread, err error) {
			err = row.Scan(&t.Workspace, &t.Key)
			return t, err
		}, `select workspace, thread from conversations where tenant = $1 and id = $2 and deleted_at is not null`, s.tenant, id)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil && was.Key != "" && was.owner(s.tenant) == o, s.db.fail("read thread", err)
	}
	_, err := s.Conversation(ctx, o.ID)
	if errors.Is(err, fault.ErrDeleted) {
		return true, nil
	}
	if errors.Is(err, fault.ErrNotFound) {
		err = nil
	}
	return false, err
}
