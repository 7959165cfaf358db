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

// BeginToolCall records a call that a server runs.
func (db *DB) BeginToolCall(ctx context.Context, c ToolCall) error {
	_, err := db.write.exec(ctx, `insert into tool_calls (id, server, client, request, seen_at) values ($1, $2, $3, $4, {now})`,
		c.ID, c.Server, c.Client, c.Request)
	return db.fail("record tool call", err)
}

// EndToolCall removes a call.
func (db *DB) EndToolCall(ctx context.Context, id string) error {
	_, err := db.write.exec(ctx, `delete from tool_calls where id = $1`, id)
	return db.fail("remove tool call", err)
}

// CancelToolCall marks the client's call with this request id as cancelled and returns its id. If two calls have the
// same request id, they come from two clients that share a key. Then it marks neither, because it does not know which
// call is meant.
func (db *DB) CancelToolCall(ctx context.Context, client, request string) ([]string, error) {
	ids, err := all(ctx, db.write, scanOne[string], `
		update tool_calls set cancelled = true
		where client = $1 and request = $2 and seen_at > {now-$3} and 1 = (
			select count(*) from tool_calls other where other.client = $1 and other.request = $2 and other.seen_at > {now-$3})
		returning id`, client, request, ToolCallAlive.Microseconds())
	return ids, db.fail("cancel tool call", err)
}

// CancelToolCalls marks all calls of the client as cancelled, and returns their ids.
func (db *DB) CancelToolCalls(ctx context.Context, client string) ([]string, error) {
	ids, err := all(ctx, db.write, scanOne[string], `update tool_calls set cancelled = true where client = $1 returning id`, client)
	return ids, db.fail("cancel tool calls", err)
}

// CancelledToolCalls returns the ids of the server's calls that were cancelled.
func (db *DB) CancelledToolCalls(ctx context.Context, server string) ([]string, error) {
	ids, err := all(ctx, db.read, scanOne[string], `select id from tool_calls where server = $1 and cancelled`, server)
	return ids, db.fail("read cancelled tool calls", err)
}

// RenewToolCalls renews the calls of the server and removes calls of dead servers.
func (db *DB) RenewToolCalls(ctx context.Context, server string) error {
	_, err := db.write.exec(ctx, `update tool_calls set seen_at = {now} where server = $1`, server)
	if err == nil {
		_, err = db.write.exec(ctx, `delete from tool_calls where seen_at < {now-$1}`, toolCallKept.Microseconds())
	}
	return db.fail("renew tool calls", err)
}
