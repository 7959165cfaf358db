// Package transcript is the interface between Berth and the stores of messages.
//
// A [Store] keeps the messages of conversations; their totals are in the database. Package transcripttest is the
// conformance suite. The other packages below this one are stores: the server's database, and DynamoDB.
package transcript

import (
	"context"

	"github.com/berthdev/berth/api"
)

// Store keeps messages. It needs no transactions: each call has one effect and may be repeated.
type Store interface {
	// Put stores a message under its id. An existing message stays unchanged, without an error.
	Put(ctx context.Context, tenant string, m api.Message) error

	// Get returns one message, or api.CodeNotFound.
	Get(ctx context.Context, tenant, conversation, id string) (api.Message, error)

	// List returns a page of a conversation's messages and the cursor of the next page, empty at the end. Ids are
	// UUIDs, sorted as text. A conversation without messages is empty.
	List(ctx context.Context, tenant, conversation string, page Page) (messages []api.Message, next string, err error)

	// Forget removes all messages of a conversation. A message that is put concurrently is kept or removed
	// completely.
	Forget(ctx context.Context, tenant, conversation string) error

	// Check returns an error if messages cannot be stored.
	Check(ctx context.Context) error
}

// Page is a part of a list.
type Page struct {
	After  string // the page starts after this id, in the page's order; empty: at the beginning
	Newest bool   // newest first
	Limit  int    // zero: DefaultLimit; at most MaxLimit
}

// Limits of pages. A page may be shorter than its limit without being the last: it ends with the message that
// exceeds PageBytes.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	PageBytes    = 16 << 20
)

// MaxMessage is the maximum size of a message as JSON, in bytes. Producers cut longer messages.
const MaxMessage = 16 << 20
