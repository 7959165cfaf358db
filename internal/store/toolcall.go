package store

import (
	"context"
	"time"
)

// Times of tool calls: a call counts as running until ToolCallAlive after its last renewal, and its row is kept for
// toolCallKept.
const (
	ToolCallAlive = 20 * time.Second
	toolCallKept  = time.Hour
)

// ToolCall is a running call of a tool. Client and Request are digests of texts that clients choose: the tenant,
// key and sandbox, and the client's id of the call.
type ToolCall struct{ ID, Server, Client, Request string }

// ToolCalls records the tool calls that run, so that any server can cancel one.
type ToolCalls struct{ db *DB }

// ToolCalls returns the records of running tool calls.
func (db *DB) ToolCalls() ToolCalls { return ToolCalls{db} }

// Begin records a call that a server runs.
func (calls ToolCalls) Begin(ctx context.Context, c ToolCall) error {
	_, err := calls.db.write.exec(ctx, `insert into tool_calls (id, server, client, request, seen_at) values ($1, $2, $3, $4, {now})`,
		c.ID, c.Server, c.Client, c.Request)
	return calls.db.fail("record tool call", err)
}

// End removes a call.
func (calls ToolCalls) End(ctx context.Context, id string) error {
	_, err := calls.db.write.exec(ctx, `delete from tool_calls where id = $1`, id)
	return calls.db.fail("remove tool call", err)
}

// Cancel marks the client's call with this request id as cancelled and returns its id. If two calls have the
// same request id, they come from two clients that share a key. Then it marks neither, because it does not know which
// call is meant.
func (calls ToolCalls) Cancel(ctx context.Context, client, request string) ([]string, error) {
	ids, err := all(ctx, calls.db.write, scanOne[string], `
		update tool_calls set cancelled = true
		where client = $1 and request = $2 and seen_at > {now-$3} and 1 = (
			select count(*) from tool_calls other where other.client = $1 and other.request = $2 and other.seen_at > {now-$3})
		returning id`, client, request, ToolCallAlive.Microseconds())
	return ids, calls.db.fail("cancel tool call", err)
}

// CancelAll marks all calls of the client as cancelled, and returns their ids.
func (calls ToolCalls) CancelAll(ctx context.Context, client string) ([]string, error) {
	ids, err := all(ctx, calls.db.write, scanOne[string], `update tool_calls set cancelled = true where client = $1 returning id`, client)
	return ids, calls.db.fail("cancel tool calls", err)
}

// ListCancelled returns the ids of the server's calls that were cancelled.
func (calls ToolCalls) ListCancelled(ctx context.Context, server string) ([]string, error) {
	ids, err := all(ctx, calls.db.read, scanOne[string], `select id from tool_calls where server = $1 and cancelled`, server)
	return ids, calls.db.fail("read cancelled tool calls", err)
}

// Renew renews the calls of the server and removes calls of dead servers.
func (calls ToolCalls) Renew(ctx context.Context, server string) error {
	_, err := calls.db.write.exec(ctx, `update tool_calls set seen_at = {now} where server = $1`, server)
	if err == nil {
		_, err = calls.db.write.exec(ctx, `delete from tool_calls where seen_at < {now-$1}`, toolCallKept.Microseconds())
	}
	return calls.db.fail("renew tool calls", err)
}
