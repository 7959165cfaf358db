package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// Conversation is a tenant's record of prompts and answers in one sandbox.
type Conversation struct {
	ID           string // empty on create: a new id is generated
	Tenant       TenantID
	Account      string
	Title        string
	Agent        string
	Template     string
	Sandbox      string            // the sandbox's id; empty until it is linked
	OwnSandbox   bool              // the sandbox was created for it, not linked
	Default      bool              // the sandbox's conversation for callers that name none
	Thread       Thread            // the thread that it is; zero: none
	Session      string            // the id of the agent's session; empty until there is one
	SessionTurns int64             // number of turns in the session
	Env          map[string]string // environment for its sandbox, used when the sandbox is created
	EnvProblem   error             // the error if Env could not be read
	Metadata     map[string]string
	Stats        Totals
	Extra        map[string]float64 // values that hooks add to the stats
	LastMessage  string             // the greatest id of its messages, including reserved ids
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Totals are sums over messages. Money is in billionths of a dollar, so that sums are exact.
type Totals struct {
	Messages                             int64
	Input, Output, CacheRead, CacheWrite int64
	CostNanos                            int64
}

// TotalsOf returns the totals of one message.
func TotalsOf(m api.Message) Totals {
	return Totals{
		Messages: 1, Input: m.Usage.InputTokens, Output: m.Usage.OutputTokens,
		CacheRead: m.Usage.CacheReadTokens, CacheWrite: m.Usage.CacheWriteTokens, CostNanos: Nanos(m.CostUSD),
	}
}

// Add returns the sum of two totals.
func (t Totals) Add(u Totals) Totals {
	return Totals{
		Messages: t.Messages + u.Messages, Input: t.Input + u.Input, Output: t.Output + u.Output,
		CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite, CostNanos: t.CostNanos + u.CostNanos,
	}
}

// Stats returns the totals in the API's form.
func (t Totals) Stats() api.Stats {
	return api.Stats{
		MessagesExchanged: t.Messages, TotalInputTokens: t.Input, TotalOutputTokens: t.Output,
		TotalCacheTokens: t.CacheRead + t.CacheWrite, TotalCacheReadTokens: t.CacheRead, TotalCacheWriteTokens: t.CacheWrite,
		TotalCostUSD: Dollars(t.CostNanos),
	}
}

// Nanos converts dollars to billionths of a dollar. NaN, infinite and negative amounts become 0.
func Nanos(usd float64) int64 {
	if !(usd > 0 && usd < 1e9) {
		return 0
	}
	return int64(usd*1e9 + 0.5)
}

// Dollars converts billionths of a dollar to dollars.
func Dollars(nanos int64) float64 { return float64(nanos) / 1e9 }

var conversations = recordKind{table: "conversations", noun: "conversation", unknown: api.CodeNotFound, perAccount: true}

const conversationColumns = `id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns, env, metadata,
	messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message, created_at, updated_at,
	workspace, thread, channel`

func (db *DB) scanConversation(row scanner) (c Conversation, err error) {
	var env string
	err = row.Scan(&c.ID, &c.Tenant, &c.Account, &c.Title, &c.Agent, &c.Template, &c.Sandbox, &c.OwnSandbox, &c.Default, &c.Session, &c.SessionTurns,
		&env, document{&c.Metadata}, &c.Stats.Messages, &c.Stats.Input, &c.Stats.Output, &c.Stats.CacheRead, &c.Stats.CacheWrite, &c.Stats.CostNanos,
		document{&c.Extra}, &c.LastMessage, instant{&c.CreatedAt}, instant{&c.UpdatedAt}, &c.Thread.Workspace, &c.Thread.Key, &c.Thread.Channel)
	if err == nil {
		c.EnvProblem = db.Secrets().openJSON(conversationEnv(c.Tenant, c.ID), env, &c.Env)
	}
	return c, err
}

// CreateConversation creates a conversation and reports whether it did. If the tenant has a conversation with the id,
// it returns that unchanged, and ErrDeleted for a deleted conversation. An id of another tenant is free.
func (s Scope) CreateConversation(ctx context.Context, c Conversation) (Conversation, bool, error) {
	if c.ID == "" {
		c.ID = NewID()
	}
	made, created, err := s.createConversation(ctx, c)
	if !errors.Is(err, fault.ErrNotFound) {
		return made, created, err
	}
	id, failed := s.ConversationID(ctx, c.ID)
	if failed != nil || id == c.ID {
		return made, created, cmp.Or(failed, err)
	}
	c.ID = id // another tenant has the chosen one
	return s.createConversation(ctx, c)
}

// createConversation is CreateConversation for one id. It returns ErrNotFound if another tenant has the id.
func (s Scope) createConversation(ctx context.Context, c Conversation) (Conversation, bool, error) {
	const op = "create conversation"
	env, sealed, err := s.db.secrets.seal(conversationEnv(s.tenant, c.ID), asJSON(c.Env))
	if err != nil {
		return Conversation{}, false, s.db.fail(op, err)
	}
	made, err := first(ctx, s.db.write, s.db.scanConversation, `
		insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns, env, metadata,
			messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message, created_at, updated_at, sealed,
			workspace, thread, channel)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', 0, $10, $11, 0, 0, 0, 0, 0, 0, '{}', '', {now}, {now}, $12, $13, $14, $15)
		on conflict do nothing returning `+conversationColumns,
		c.ID, s.tenant, c.Account, c.Title, c.Agent, c.Template, c.Sandbox, c.OwnSandbox, c.Default, env, asJSON(c.Metadata), sealed,
		c.Thread.Workspace, c.Thread.Key, c.Thread.Channel)
	if !errors.Is(err, sql.ErrNoRows) {
		return made, err == nil, s.db.fail(op, err)
	}
	if c.Default {
		if there, err := s.DefaultConversation(ctx, c.Sandbox); err == nil {
			return there, false, nil
		}
	}
	if c.Thread.Key != "" {
		if there, err := s.Threads().Get(ctx, c.Thread); err == nil {
			return there, false, nil
		}
	}
	there, err := s.Conversation(ctx, c.ID)
	return there, false, err
}

// Conversation returns the conversation, or ErrNotFound or ErrDeleted.
func (s Scope) Conversation(ctx context.Context, id string) (Conversation, error) {
	const op = "read conversation"
	for {
		c, err := first(ctx, s.db.read, s.db.scanConversation,
			`select `+conversationColumns+` from conversations where tenant = $1 and id in ($2, $3) and deleted_at is null`, s.tenant, id, s.scopedID(id))
		if err == nil && s.account != "" && c.Account != s.account {
			return Conversation{}, conversations.missing(op, id)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return c, s.db.fail(op, err)
		}
		if err = conversations.explainMissing(ctx, s, op, id); !errors.Is(err, fault.ErrStale) { // ErrStale: it was created between the two statements
			return c, err
		}
	}
}

// DefaultConversation returns the sandbox's conversation for callers that name none.
func (s Scope) DefaultConversation(ctx context.Context, sandbox string) (Conversation, error) {
	const op = "read conversation"
	c, err := first(ctx, s.db.read, s.db.scanConversation,
		`select `+conversationColumns+` from conversations where tenant = $1 and sandbox = $2 and is_default and deleted_at is null`, s.tenant, sandbox)
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.account != "" && c.Account != s.account {
		return Conversation{}, notFound(op, "default conversation of sandbox", sandbox)
	}
	return c, s.db.fail(op, err)
}

// Conversations returns one page of the tenant's conversations, newest first, and the position of the next page. If
// sandbox is not empty, it returns only that sandbox's conversations.
func (s Scope) Conversations(ctx context.Context, sandbox string, page Page) ([]Conversation, Position, error) {
	l := conversationsOf(s)
	if sandbox != "" {
		l.where("sandbox = $%d", sandbox)
	}
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list conversations", err)
}

// conversationsOf returns the list of a scope's conversations.
func conversationsOf(s Scope) listing[Conversation] {
	l := listing[Conversation]{
		columns: conversationColumns, table: "conversations", scan: s.db.scanConversation,
		position: func(c Conversation) Position { return Position{c.CreatedAt, c.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	l.within(s.account)
	l.conditions = append(l.conditions, "deleted_at is null")
	return l
}

// LinkSandbox replaces the conversation's sandbox if it still is had, and returns the conversation. had and sandbox
// may be empty.
func (s Scope) LinkSandbox(ctx context.Context, id, had, sandbox string, own bool) (Conversation, error) {
	const op = "link sandbox"
	_, err := s.db.write.exec(ctx, `
		update conversations set sandbox = $3, own_sandbox = $4, updated_at = {now}
		where tenant = $1 and id = $2 and sandbox = $5 and deleted_at is null`, s.tenant, id, sandbox, own, had)
	if err != nil {
		return Conversation{}, s.db.fail(op, err)
	}
	return s.Conversation(ctx, id)
}

// SetTitle names the conversation.
func (s Scope) SetTitle(ctx context.Context, id, title string) error {
	n, err := s.db.write.exec(ctx, `update conversations set title = $3, updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id, printable(title))
	if err == nil && n == 0 {
		return conversations.explainMissing(ctx, s, "name conversation", id)
	}
	return s.db.fail("name conversation", err)
}

// SetExtra adds values of hooks to the stats.
func (s Scope) SetExtra(ctx context.Context, id string, extra map[string]float64) error {
	err := s.db.inTx(ctx, func(tx *txn) error { return s.setExtra(ctx, tx, id, extra) })
	return s.db.fail("record statistics", err)
}

// maxExtraKeys limits the number of keys that hooks add to a conversation's stats. More keys are dropped, because their
// names may come from inside a sandbox, which may send a new name with each turn.
const maxExtraKeys = 128

func (s Scope) setExtra(ctx context.Context, tx *txn, id string, extra map[string]float64) error {
	c, err := first(ctx, tx, s.db.scanConversation, `update conversations set updated_at = {now} where tenant = $1 and id = $2 returning `+conversationColumns, s.tenant, id)
	if err != nil {
		return err
	}
	all := map[string]float64{}
	maps.Copy(all, c.Extra)
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if _, known := all[key]; known || len(all) < maxExtraKeys {
			all[key] = extra[key]
		}
	}
	_, err = tx.exec(ctx, `update conversations set extra = $2 where id = $1`, id, asJSON(all))
	return err
}

// HookAnswer holds the values that a webhook's answer sets.
type HookAnswer struct {
	Sandbox      string
	Metadata     map[string]string
	Conversation string
	Stats        map[string]float64
}

// StoreHookAnswer removes a claimed call from the outbox and stores the values that its answer sets, in one
// transaction. It returns ErrStale when the call was claimed again. Values for a deleted sandbox or conversation are
// dropped.
func (s Scope) StoreHookAnswer(ctx context.Context, out Message, a HookAnswer) error {
	const op = "record a webhook's answer"
	err := s.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `delete from outbox where id = $1 and attempts = $2`, out.ID, out.Attempts)
		if err == nil && n == 0 {
			err = stale(op, "message "+out.ID)
		}
		if err == nil && len(a.Metadata) > 0 {
			err = updateMetadata(ctx, tx, a.Sandbox, func(all map[string]string) { maps.Copy(all, a.Metadata) })
		}
		if err == nil && len(a.Stats) > 0 {
			if err = s.setExtra(ctx, tx, a.Conversation, a.Stats); errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
		}
		return err
	})
	return s.db.fail(op, err)
}

// AddMetadata adds to a sandbox's metadata.
func (s Scope) AddMetadata(ctx context.Context, id string, metadata map[string]string) error {
	err := s.db.inTx(ctx, func(tx *txn) error {
		return updateMetadata(ctx, tx, id, func(all map[string]string) { maps.Copy(all, metadata) })
	})
	return s.db.fail("record metadata", err)
}

// updateMetadata changes a sandbox's metadata. It does nothing for a deleted sandbox.
func updateMetadata(ctx context.Context, tx *txn, id string, change func(map[string]string)) error {
	all := map[string]string{}
	found, err := first(ctx, tx, func(row scanner) (map[string]string, error) {
		err := row.Scan(document{&all})
		return all, err
	}, `update sandboxes set metadata = metadata where id = $1 and deleted_at is null returning metadata`, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	change(found)
	if sandbox.CheckMetadata(found) != nil {
		return nil // the metadata is full and stays unchanged
	}
	_, err = tx.exec(ctx, `update sandboxes set metadata = $2 where id = $1`, id, asJSON(found))
	return err
}

// DeleteConversation makes the conversation a tombstone and enqueues the clean-up messages, in one transaction. It
// reports whether the conversation existed.
func (s Scope) DeleteConversation(ctx context.Context, id string, then ...Message) (there bool, err error) {
	err = s.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update conversations set deleted_at = {now}, updated_at = {now}
			where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
		if there = n > 0; err != nil || !there {
			return err
		}
		for _, m := range then {
			if err := s.Outgoing().enqueue(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	return there, s.db.fail("delete conversation", err)
}

// OutsideScope reports whether a sandbox id belongs to another tenant or account.
func (s Scope) OutsideScope(ctx context.Context, sandbox string) (bool, error) {
	n, err := first(ctx, s.db.read, scanOne[int64], `select count(*) from sandboxes
		where id = $2 and (tenant <> $1 or cast($3 as text) <> '' and account <> $3)`, s.tenant, sandbox, s.account)
	return n > 0, s.db.fail("read sandbox", err)
}

// CountConversations returns how many conversations that are not deleted use the sandbox.
func (s Scope) CountConversations(ctx context.Context, sandbox string) (int64, error) {
	n, err := first(ctx, s.db.read, scanOne[int64],
		`select count(*) from conversations where tenant = $1 and sandbox = $2 and deleted_at is null`, s.tenant, sandbox)
	return n, s.db.fail("count conversations", err)
}

// ListConversations lists the conversations of all tenants that are not deleted, ordered by id.
func (o Overview) ListConversations(ctx context.Context, after string, limit int) ([]Conversation, error) {
	found, err := all(ctx, o.db.read, o.db.scanConversation, `select `+conversationColumns+` from conversations
		where id > $1 and deleted_at is null order by id limit $2`, after, clampLimit(limit))
	return found, o.db.fail("list conversations", err)
}
