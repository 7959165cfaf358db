package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// Conversation is a tenant's record of prompts and answers in one sandbox.
type Conversation struct {
	ID           string // empty on create: a new one is made
	Tenant       TenantID
	Account      string
	Title        string
	Agent        string
	Template     string
	Sandbox      string            // empty until it has one
	OwnSandbox   bool              // the sandbox is its own, and not only linked to
	Default      bool              // the one of its sandbox that older callers speak to
	Session      string            // the agent's; empty until it has one
	SessionTurns int64             // that the session has had
	Env          map[string]string // of its own sandbox, once it is made
	Metadata     map[string]string
	Stats        Totals
	Extra        map[string]float64 // what hooks add to the stats
	LastMessage  string             // the greatest id that any of its messages has or will have
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Totals is what messages add up to. Money is in billionths of a dollar, so that sums are exact.
type Totals struct {
	Messages                             int64
	Input, Output, CacheRead, CacheWrite int64
	CostNanos                            int64
}

// TotalsOf is what one message adds.
func TotalsOf(m api.Message) Totals {
	return Totals{
		Messages: 1, Input: m.Usage.InputTokens, Output: m.Usage.OutputTokens,
		CacheRead: m.Usage.CacheReadTokens, CacheWrite: m.Usage.CacheWriteTokens, CostNanos: Nanos(m.CostUSD),
	}
}

// Add is both together.
func (t Totals) Add(u Totals) Totals {
	return Totals{
		Messages: t.Messages + u.Messages, Input: t.Input + u.Input, Output: t.Output + u.Output,
		CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite, CostNanos: t.CostNanos + u.CostNanos,
	}
}

// Stats is the totals as the API shows them.
func (t Totals) Stats() api.Stats {
	return api.Stats{
		MessagesExchanged: t.Messages, TotalInputTokens: t.Input, TotalOutputTokens: t.Output,
		TotalCacheTokens: t.CacheRead + t.CacheWrite, TotalCacheReadTokens: t.CacheRead, TotalCacheWriteTokens: t.CacheWrite,
		TotalCostUSD: Dollars(t.CostNanos),
	}
}

// Nanos is money in billionths of a dollar; what is no amount is none.
func Nanos(usd float64) int64 {
	if !(usd > 0 && usd < 1e9) {
		return 0
	}
	return int64(usd*1e9 + 0.5)
}

// Dollars is the other way round.
func Dollars(nanos int64) float64 { return float64(nanos) / 1e9 }

var conversations = recordKind{table: "conversations", noun: "conversation", unknown: api.CodeNotFound, walled: true}

const conversationColumns = `id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns, env, metadata,
	messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message, created_at, updated_at`

func scanConversation(row scanner) (c Conversation, err error) {
	err = row.Scan(&c.ID, &c.Tenant, &c.Account, &c.Title, &c.Agent, &c.Template, &c.Sandbox, &c.OwnSandbox, &c.Default, &c.Session, &c.SessionTurns,
		document{&c.Env}, document{&c.Metadata}, &c.Stats.Messages, &c.Stats.Input, &c.Stats.Output, &c.Stats.CacheRead, &c.Stats.CacheWrite, &c.Stats.CostNanos,
		document{&c.Extra}, &c.LastMessage, instant{&c.CreatedAt}, instant{&c.UpdatedAt})
	return c, err
}

// CreateConversation makes a conversation, and says whether it did: one of the tenant's that has the id
// already is returned as it is. An id that another tenant holds is not found, a deleted one is gone.
func (s Scope) CreateConversation(ctx context.Context, c Conversation) (Conversation, bool, error) {
	const op = "create conversation"
	if c.ID == "" {
		c.ID = NewID()
	}
	made, err := first(ctx, s.db.write, scanConversation, `
		insert into conversations (id, tenant, account, title, agent, template, sandbox, own_sandbox, is_default, session, session_turns, env, metadata,
			messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, extra, last_message, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', 0, $10, $11, 0, 0, 0, 0, 0, 0, '{}', '', {now}, {now})
		on conflict do nothing returning `+conversationColumns,
		c.ID, s.tenant, c.Account, c.Title, c.Agent, c.Template, c.Sandbox, c.OwnSandbox, c.Default, asJSON(c.Env), asJSON(c.Metadata))
	if !errors.Is(err, sql.ErrNoRows) {
		return made, err == nil, s.db.fail(op, err)
	}
	if c.Default {
		if there, err := s.DefaultConversation(ctx, c.Sandbox); err == nil {
			return there, false, nil
		}
	}
	there, err := s.Conversation(ctx, c.ID)
	return there, false, err
}

// Conversation returns the conversation, ErrNotFound or ErrDeleted.
func (s Scope) Conversation(ctx context.Context, id string) (Conversation, error) {
	const op = "read conversation"
	for {
		c, err := first(ctx, s.db.read, scanConversation,
			`select `+conversationColumns+` from conversations where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
		if err == nil && s.account != "" && c.Account != s.account {
			return Conversation{}, conversations.missing(op, id)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return c, s.db.fail(op, err)
		}
		if err = conversations.miss(ctx, s, op, id); !errors.Is(err, sandbox.ErrStale) { // else it was made between the two
			return c, err
		}
	}
}

// DefaultConversation returns the one of a sandbox that older callers speak to.
func (s Scope) DefaultConversation(ctx context.Context, sandbox string) (Conversation, error) {
	const op = "read conversation"
	c, err := first(ctx, s.db.read, scanConversation,
		`select `+conversationColumns+` from conversations where tenant = $1 and sandbox = $2 and is_default and deleted_at is null`, s.tenant, sandbox)
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.account != "" && c.Account != s.account {
		return Conversation{}, notFound(op, "default conversation of sandbox", sandbox)
	}
	return c, s.db.fail(op, err)
}

// Conversations returns one page of the tenant's conversations, those of one sandbox if it is named,
// newest first, and where the next one begins.
func (s Scope) Conversations(ctx context.Context, sandbox string, page Page) ([]Conversation, Position, error) {
	l := listing[Conversation]{
		columns: conversationColumns, table: "conversations", scan: scanConversation,
		position: func(c Conversation) Position { return Position{c.CreatedAt, c.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	l.within(s.account)
	l.conditions = append(l.conditions, "deleted_at is null")
	if sandbox != "" {
		l.where("sandbox = $%d", sandbox)
	}
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list conversations", err)
}

// LinkSandbox gives the conversation another sandbox than the one it had, empty for none, unless somebody
// did so meanwhile, and returns it as it is then.
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

// ConversationDeleted reports whether there was such a conversation and it was deleted.
func (s Scope) ConversationDeleted(ctx context.Context, id string) (bool, error) {
	_, err := s.Conversation(ctx, id)
	switch {
	case errors.Is(err, sandbox.ErrDeleted):
		return true, nil
	case errors.Is(err, sandbox.ErrNotFound):
		return false, nil
	}
	return false, err
}

// SetTitle names the conversation.
func (s Scope) SetTitle(ctx context.Context, id, title string) error {
	n, err := s.db.write.exec(ctx, `update conversations set title = $3, updated_at = {now}
		where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id, printable(title))
	if err == nil && n == 0 {
		return conversations.miss(ctx, s, "name conversation", id)
	}
	return s.db.fail("name conversation", err)
}

// SetExtra adds to what hooks put beside the stats.
func (s Scope) SetExtra(ctx context.Context, id string, extra map[string]float64) error {
	err := s.db.atomically(ctx, func(tx *txn) error { return s.setExtra(ctx, tx, id, extra) })
	return s.db.fail("record statistics", err)
}

// mostExtra is how many keys of hooks a conversation's stats have. Further keys are left out: they may come out
// of a sandbox, another one for each turn.
const mostExtra = 128

func (s Scope) setExtra(ctx context.Context, tx *txn, id string, extra map[string]float64) error {
	c, err := first(ctx, tx, scanConversation, `update conversations set updated_at = {now} where tenant = $1 and id = $2 returning `+conversationColumns, s.tenant, id)
	if err != nil {
		return err
	}
	all := map[string]float64{}
	maps.Copy(all, c.Extra)
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if _, known := all[key]; known || len(all) < mostExtra {
			all[key] = extra[key]
		}
	}
	_, err = tx.exec(ctx, `update conversations set extra = $2 where id = $1`, id, asJSON(all))
	return err
}

// HookAnswer is what a webhook's answer sets.
type HookAnswer struct {
	Sandbox      string
	Metadata     map[string]string
	Conversation string
	Stats        map[string]float64
}

// TakeAnswer takes a claimed call out of the outbox and stores what its answer sets: both, or neither. It returns
// ErrStale when the call was claimed again since. A sandbox or a conversation that is gone remembers nothing.
func (s Scope) TakeAnswer(ctx context.Context, out Message, a HookAnswer) error {
	const op = "record a webhook's answer"
	err := s.db.atomically(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `delete from outbox where id = $1 and attempts = $2`, out.ID, out.Attempts)
		if err == nil && n == 0 {
			err = stale(op, "message "+out.ID)
		}
		if err == nil && len(a.Metadata) > 0 {
			err = noteSandbox(ctx, tx, a.Sandbox, func(all map[string]string) { maps.Copy(all, a.Metadata) })
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
	err := s.db.atomically(ctx, func(tx *txn) error {
		return noteSandbox(ctx, tx, id, func(all map[string]string) { maps.Copy(all, metadata) })
	})
	return s.db.fail("record metadata", err)
}

// noteSandbox changes a sandbox's metadata. A sandbox that is gone has none.
func noteSandbox(ctx context.Context, tx *txn, id string, change func(map[string]string)) error {
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
		return nil // it is full; what is there stays
	}
	_, err = tx.exec(ctx, `update sandboxes set metadata = $2 where id = $1`, id, asJSON(found))
	return err
}

// DeleteConversation leaves a tombstone, and in the outbox what is to be done about what the conversation
// had: both or neither. It says whether it was there.
func (s Scope) DeleteConversation(ctx context.Context, id string, then ...Message) (there bool, err error) {
	err = s.db.atomically(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update conversations set deleted_at = {now}, updated_at = {now}
			where tenant = $1 and id = $2 and deleted_at is null`, s.tenant, id)
		if there = n > 0; err != nil || !there {
			return err
		}
		for _, m := range then {
			if err := s.enqueue(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	return there, s.db.fail("delete conversation", err)
}

// Foreign reports whether a sandbox's id is outside the scope: another tenant's, or another account's.
func (s Scope) Foreign(ctx context.Context, sandbox string) (bool, error) {
	n, err := first(ctx, s.db.read, scanOne[int64], `select count(*) from sandboxes
		where id = $2 and (tenant <> $1 or cast($3 as text) <> '' and account <> $3)`, s.tenant, sandbox, s.account)
	return n > 0, s.db.fail("read sandbox", err)
}

// Users is how many conversations that are not deleted work in the sandbox.
func (s Scope) Users(ctx context.Context, sandbox string) (int64, error) {
	n, err := first(ctx, s.db.read, scanOne[int64],
		`select count(*) from conversations where tenant = $1 and sandbox = $2 and deleted_at is null`, s.tenant, sandbox)
	return n, s.db.fail("count conversations", err)
}

// EveryConversation lists those of all tenants that are not deleted, in the order of their ids.
func (db *DB) EveryConversation(ctx context.Context, after string, limit int) ([]Conversation, error) {
	found, err := all(ctx, db.read, scanConversation, `select `+conversationColumns+` from conversations
		where id > $1 and deleted_at is null order by id limit $2`, after, clampLimit(limit))
	return found, db.fail("list conversations", err)
}
