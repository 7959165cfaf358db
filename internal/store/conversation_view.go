package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"
)

// The view conversation_records shows conversations to other programs, with the field names of the API. Its stats are
// one JSON object: jsonb on PostgreSQL, text on SQLite. The engines build JSON objects differently, so the migration
// that creates the view is Go code and has no file.
const (
	conversationViewVersion = 9
	conversationViewName    = "00009_conversation_records"
)

func (d *dialect) conversationViewMigration() *goose.Migration {
	run := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, d.conversationView())
		return err
	}
	return goose.NewGoMigration(conversationViewVersion, &goose.GoFunc{RunTx: run}, nil)
}

func (d *dialect) conversationView() string {
	build, dollars := "json_object", "cost_nanos / 1e9"
	if d.goose == goose.DialectPostgres {
		build, dollars = "jsonb_build_object", "round(cost_nanos / 1e9, 9)"
	}
	return fmt.Sprintf(`create view conversation_records as
		select id, nullif(account, '') as account_id, tenant as organization_id, nullif(agent, '') as agent_id,
			nullif(sandbox, '') as sandbox_id, title, template,
			%s('messages_exchanged', messages, 'total_input_tokens', input_tokens, 'total_output_tokens', output_tokens,
				'total_cache_tokens', cache_read_tokens + cache_write_tokens, 'total_cost_usd', %s) as stats,
			created_at, updated_at
		from conversations where deleted_at is null`, build, dollars)
}
