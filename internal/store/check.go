package store

import (
	"context"
	"fmt"
)

// checks are queries for violated invariants. Each returned row describes a violation.
var checks = []struct{ what, query string }{
	{"the events of a turn have a gap or an overlap", `
		select turn || ' at ' || cast(first as text) from (
			select turn, first, lag(last) over (partition by turn order by first) as before from turn_log
		) as parts where before is not null and first <> before + 1 limit 20`},
	{"a turn has more or fewer events than it says", `
		select turns.id from turns join (select turn, max(last) as last from turn_log group by turn) as logs on logs.turn = turns.id
		where logs.last < turns.seq or logs.last > turns.seq and finished_at is not null limit 20`},
	{"events belong to no turn", `select distinct turn from turn_log where not exists (select 1 from turns where turns.id = turn_log.turn) limit 20`},
	{"the attachments of a turn are left whose agent has ended", `select turn from prompt_files where not exists
		(select 1 from turns where turns.id = prompt_files.turn and outcome is null and finished_at is null) limit 20`},
	{"a turn has ended and still has a place", `select id from turns where finished_at is not null and slot is not null limit 20`},
	{"a turn has a place twice over", `select sandbox from turns where slot is not null group by sandbox, slot having count(*) > 1 limit 20`},
	{"two turns of a conversation run", `select conversation from turns where slot is not null group by conversation having count(*) > 1 limit 20`},
	{"the day's usage differs from the conversation's stats", `
		select conversations.id from conversations left join (
			select conversation, sum(messages) as messages, sum(input_tokens) as input, sum(output_tokens) as output,
				sum(cache_read_tokens) as reads, sum(cache_write_tokens) as writes, sum(cost_nanos) as cost
			from usage_days group by conversation
		) as used on used.conversation = conversations.id
		where coalesce(used.messages, 0) <> conversations.messages or coalesce(used.input, 0) <> input_tokens
			or coalesce(used.output, 0) <> output_tokens or coalesce(used.reads, 0) <> cache_read_tokens
			or coalesce(used.writes, 0) <> cache_write_tokens or coalesce(used.cost, 0) <> cost_nanos limit 20`},
	{"an owner has two sandboxes", `
		select tenant || ' ' || owner_kind || ' ' || owner_id from sandboxes where ` + occupies + `
		group by tenant, owner_kind, owner_id having count(*) > 1 limit 20`},
	{"a tenant's count of sandboxes is wrong", `
		select quotas.tenant from quotas where kind = 'sandboxes' and used <> (
			select count(*) from sandboxes where sandboxes.tenant = quotas.tenant and deleted_at is null) limit 20`},
}

// Check runs all invariant checks, one statement each. It returns the violations and the number of checks.
func (db *DB) Check(ctx context.Context) (wrong []string, asked int, err error) {
	for _, c := range checks {
		found, err := all(ctx, db.read, scanOne[string], c.query)
		if err != nil {
			return wrong, asked, db.fail("check database", err)
		}
		for _, which := range found {
			wrong = append(wrong, fmt.Sprintf("%s: %s", c.what, which))
		}
		asked++
	}
	return wrong, asked, nil
}
