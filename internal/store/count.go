package store

import (
	"context"
	"time"

	"github.com/berthdev/berth/api"
)

// UsageCounts counts the messages, tokens and cost of a tenant.
type UsageCounts struct{ scope Scope }

// UsageCounts returns the tenant's usage.
func (s Scope) UsageCounts() UsageCounts { return UsageCounts{s} }

// CountMessage adds a stored message to its conversation's stats and to the day's usage, and removes it from the
// outbox, in one transaction. It returns ErrStale if the message was counted already. If keep is set, the same
// transaction stores the message in this database, so that the stats always match the messages. It returns the
// conversation's new totals.
func (usage UsageCounts) CountMessage(ctx context.Context, out Message, m api.Message, keep bool) (sum Totals, err error) {
	const op = "count message"
	err = usage.scope.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `delete from outbox where id = $1`, out.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return stale(op, "message "+m.ID)
		}
		if keep {
			if err := usage.scope.Messages().put(ctx, tx, m); err != nil {
				return err
			}
		}
		sum, err = usage.count(ctx, tx, m)
		return err
	})
	return sum, usage.scope.db.fail(op, err)
}

func (usage UsageCounts) count(ctx context.Context, tx *txn, m api.Message) (sum Totals, err error) {
	t := TotalsOf(m)
	c, err := first(ctx, tx, usage.scope.db.scanConversation, `
		update conversations set messages = messages + $3, input_tokens = input_tokens + $4, output_tokens = output_tokens + $5,
			cache_read_tokens = cache_read_tokens + $6, cache_write_tokens = cache_write_tokens + $7, cost_nanos = cost_nanos + $8,
			updated_at = {now}
		where tenant = $1 and id = $2 returning `+conversationColumns,
		usage.scope.tenant, m.ConversationID, t.Messages, t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CostNanos)
	if err != nil {
		return sum, err
	}
	model := m.Model
	if m.Role == api.RoleUser { // it was asked for, perhaps by another name than that of the model that answers
		model = ""
	}
	_, err = tx.exec(ctx, `
		insert into usage_days (tenant, day, model, conversation, messages, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		on conflict (tenant, day, model, conversation) do update set
			messages = usage_days.messages + excluded.messages, input_tokens = usage_days.input_tokens + excluded.input_tokens,
			output_tokens = usage_days.output_tokens + excluded.output_tokens, cache_read_tokens = usage_days.cache_read_tokens + excluded.cache_read_tokens,
			cache_write_tokens = usage_days.cache_write_tokens + excluded.cache_write_tokens, cost_nanos = usage_days.cost_nanos + excluded.cost_nanos`,
		usage.scope.tenant, m.CreatedAt.UTC().Format(time.DateOnly), model, m.ConversationID, t.Messages, t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CostNanos)
	return c.Stats, err
}

// UsageRow is the usage of one model on one day, in one conversation or in all of them.
type UsageRow struct {
	Day          string // 2006-01-02, UTC
	Model        string
	Conversation string
	Totals
}

// Usage returns the usage of the tenant, or of the scope's account, between two days (inclusive). It is grouped by day
// and model and, if apart is set, by conversation.
func (usage UsageCounts) Usage(ctx context.Context, from, to string, conversation string, apart bool, limit int) ([]UsageRow, error) {
	by := `day, model, ''`
	if apart {
		by = `day, model, conversation`
	}
	args, within := []any{usage.scope.tenant, from, to, conversation, limit}, ""
	if usage.scope.account != "" { // a condition for all scopes would read all conversations
		args = append(args, usage.scope.account)
		within = ` and exists (select 1 from conversations where conversations.id = usage_days.conversation and conversations.tenant = $1 and account = $6)`
	}
	used, err := all(ctx, usage.scope.db.read, func(row scanner) (u UsageRow, err error) {
		err = row.Scan(&u.Day, &u.Model, &u.Conversation, &u.Messages, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.CostNanos)
		return u, err
	}, `select `+by+`, cast(sum(messages) as bigint), cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint),
			cast(sum(cache_read_tokens) as bigint), cast(sum(cache_write_tokens) as bigint), cast(sum(cost_nanos) as bigint)
		from usage_days where tenant = $1 and day >= $2 and day <= $3 and (cast($4 as text) = '' or conversation = $4)`+within+`
		group by 1, 2, 3 order by 1 desc, 2, 3 limit cast($5 as bigint)`, args...)
	return used, usage.scope.db.fail("read usage", err)
}
