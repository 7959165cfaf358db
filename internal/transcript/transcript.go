// Package transcript is the seam between Berth and where messages are kept.
//
// A [Store] keeps the messages of conversations; what they add up to is counted in the database. Package
// transcripttest is the suite that every store passes; the packages below this one are stores: the
// server's own database, and DynamoDB.
package transcript

import (
	"context"

	"github.com/berthdev/berth/api"
)

// Store keeps messages. It needs no transactions: each call is one effect, and may be repeated.
type Store interface {
	// Put stores a message under its id. One that is there already stays as it is, and is no error.
	Put(ctx context.Context, tenant string, m api.Message) error

	// Get returns one message; api.CodeNotFound if there is none.
	Get(ctx context.Context, tenant, conversation, id string) (api.Message, error)

	// List returns a page of a conversation's messages, and where the next one begins: empty at the end.
	// Ids are UUIDs, sorted as text. A conversation that nobody wrote in has none.
	List(ctx context.Context, tenant, conversation string, page Page) (messages []api.Message, next string, err error)

	// Forget removes all messages of a conversation. Of one that is put meanwhile everything is left, or
	// nothing.
	Forget(ctx context.Context, tenant, conversation string) error

	// Check says why messages cannot be stored, nil if they can.
	Check(ctx context.Context) error
}

// Page is a part of a list.
type Page struct {
	After  string // the id behind which it begins, in its order; empty: at the beginning
	Newest bool   // the newest first
	Limit  int    // zero: DefaultLimit; no more than MaxLimit
}

// How long pages are. A page may be shorter than its limit, and not be the last: it ends with the message
// that makes it longer than PageBytes.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	PageBytes    = 16 << 20
)

// MaxMessage is how large a message may be as JSON. Whoever makes messages cuts what is longer.
const MaxMessage = 16 << 20
