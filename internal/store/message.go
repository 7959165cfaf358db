package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/berthdev/berth/api"
)

// StoredMessage is a message of a conversation that is kept in this database. Body is JSON.
type StoredMessage struct{ ID, Body string }

// Messages holds the messages of a tenant's conversations.
type Messages struct{ scope Scope }

// Messages returns the tenant's messages.
func (s Scope) Messages() Messages { return Messages{s} }

// Put stores a message under its id. An existing message stays unchanged.
func (me Messages) Put(ctx context.Context, conversation string, m StoredMessage) error {
	return me.scope.db.fail("store message", me.insert(ctx, me.scope.db.write, conversation, m))
}

// put stores a message inside a larger transaction (see CountMessage).
func (me Messages) put(ctx context.Context, r runner, m api.Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// PostgreSQL refuses invalid UTF-8, which would block the message forever.
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	return me.insert(ctx, r, m.ConversationID, StoredMessage{m.ID, text})
}

func (me Messages) insert(ctx context.Context, r runner, conversation string, m StoredMessage) error {
	_, err := r.exec(ctx, `insert into messages (tenant, conversation, id, body) values ($1, $2, $3, $4) on conflict do nothing`,
		me.scope.tenant, conversation, m.ID, m.Body)
	return err
}

// Get returns one message, or ErrNotFound.
func (me Messages) Get(ctx context.Context, conversation, id string) (StoredMessage, error) {
	const op = "read message"
	m, err := first(ctx, me.scope.db.read, func(row scanner) (m StoredMessage, err error) {
		err = row.Scan(&m.ID, &m.Body)
		return m, err
	}, `select id, body from messages where tenant = $1 and conversation = $2 and id = $3`, me.scope.tenant, conversation, id)
	if errors.Is(err, sql.ErrNoRows) {
		return m, notFound(op, "message", id)
	}
	return m, me.scope.db.fail(op, err)
}

// MessagePage is a part of a conversation's messages.
type MessagePage struct {
	After  string // the page starts after this id; empty: at the beginning
	Newest bool   // newest first
	Limit  int    // messages; 0 means DefaultLimit; at most MaxLimit
	Bytes  int    // the page ends with the message that exceeds this sum of bodies
}

// List returns one page of a conversation's messages ordered by id, and whether there are more.
func (me Messages) List(ctx context.Context, conversation string, page MessagePage) (messages []StoredMessage, more bool, err error) {
	var seen int
	messages, err = all(ctx, me.scope.db.read, func(row scanner) (m StoredMessage, err error) {
		err = row.Scan(&m.ID, &m.Body, &seen)
		return m, err
	}, page.text(), me.scope.tenant, conversation, page.After, clampLimit(page.Limit), page.Bytes)
	return messages, seen > len(messages), me.scope.db.fail("list messages", err)
}

// text returns the query of the page.
func (p MessagePage) text() string {
	switch {
	case !p.Newest:
		return selectMessages
	case p.After == "":
		return selectNewest
	}
	return selectNewestAfter
}

var (
	selectMessages    = fmt.Sprintf(messagesOf, "id > $3", "id")
	selectNewest      = fmt.Sprintf(messagesOf, "$3 = ''", "id desc")
	selectNewestAfter = fmt.Sprintf(messagesOf, "id < $3", "id desc")
)

// One statement reads the sizes first, and then only the bodies that fit into the page: a page of large messages is
// never loaded whole. It reads one message more than it returns.
const messagesOf = `
	with sizes as materialized (
		select id, octet_length(body) as bytes from messages where tenant = $1 and conversation = $2 and %[1]s
		order by %[2]s limit cast($4 as bigint) + 1
	), sums as (
		select id, row_number() over (order by %[2]s) as n, sum(bytes) over (order by %[2]s) - bytes as before from sizes
	)
	select m.id, m.body, (select count(*) from sizes)
	from sums join messages m on m.tenant = $1 and m.conversation = $2 and m.id = sums.id
	where sums.n <= cast($4 as bigint) and sums.before <= cast($5 as bigint) order by sums.n`

// Forget removes all messages of a conversation.
func (me Messages) Forget(ctx context.Context, conversation string) error {
	_, err := me.scope.db.write.exec(ctx, `delete from messages where tenant = $1 and conversation = $2`, me.scope.tenant, conversation)
	return me.scope.db.fail("forget messages", err)
}
