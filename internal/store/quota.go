package store

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// The kinds of things that are counted per tenant.
const (
	QuotaSandboxes = "sandboxes" // those not deleted
	QuotaTurns     = "turns"     // those running
)

// count is what a change does to a quota. The counter's row changes in the same statement, or
// transaction, as what it counts, and its own constraint refuses more than the cap: nobody ever looks
// first and adds later.
type count struct {
	by  int64
	cap int64
}

var freed = count{by: -1}

func taken(cap int64) count { return count{by: 1, cap: cap} }

// text is the statement that counts the sandbox in source, a table with a condition; its arguments come
// after n others.
func (c count) text(source string, n int) string {
	if c.by < 0 {
		return fmt.Sprintf(`update quotas set used = used - 1 where kind = '%s' and used > 0 and tenant in (select tenant from %s)`, QuotaSandboxes, source)
	}
	return countUp(fmt.Sprintf(`tenant, '%s'`, QuotaSandboxes), source, n+1)
}

func (c count) args() []any {
	if c.by < 0 {
		return nil
	}
	return []any{c.cap}
}

// countUp counts one more of what is in source, under the cap that is argument n. Without a condition in
// source, SQLite would take on conflict for a join's.
func countUp(columns, source string, n int) string {
	return fmt.Sprintf(`insert into quotas (tenant, kind, used, cap)
		select %s, 1, cast($%d as bigint) from %s
		on conflict (tenant, kind) do update set used = quotas.used + 1, cap = excluded.cap`, columns, n, source)
}

func overQuota(op, kind string, cap int64) error {
	e := sandbox.Errorf(op, api.CodeQuotaExceeded, "the tenant may have %d %s at once, and has them", cap, kind)
	e.Hint = fmt.Sprintf("%s, or raise max_%s_per_tenant.", room[kind], kind)
	return e
}

// room is what makes room for one more of a kind.
var room = map[string]string{
	QuotaSandboxes: "Delete one that is not needed: a stopped or terminated one counts, too",
	QuotaTurns:     "Wait until one ends",
}

// Used returns how many of a kind the tenant has.
func (s Scope) Used(ctx context.Context, kind string) (int64, error) {
	used, err := all(ctx, s.db.read, scanOne[int64], `select used from quotas where tenant = $1 and kind = $2`, s.tenant, kind)
	if err != nil || len(used) == 0 {
		return 0, s.db.fail("read quota", err)
	}
	return used[0], nil
}

// Recount makes every tenant's count of sandboxes what there is, and returns how many were wrong. Only
// servers of a time before there were quotas leave them so, those that ran on beside this one.
func (db *DB) Recount(ctx context.Context) (wrong int64, err error) {
	const op = "count sandboxes anew"
	tenants, err := all(ctx, db.read, scanOne[TenantID], `
		select tenant from sandboxes where deleted_at is null
		union select tenant from quotas where kind = $1`, QuotaSandboxes)
	for _, t := range tenants {
		n, failed := db.recount(ctx, t)
		if failed != nil {
			return wrong, db.fail(op, failed)
		}
		wrong += n
	}
	return wrong, db.fail(op, err)
}

// recount takes the tenant's row first: then nobody is between making a sandbox and counting it. The cap
// goes, which there may be more than; the next create brings it again.
func (db *DB) recount(ctx context.Context, t TenantID) (wrong int64, err error) {
	err = db.atomically(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, `
			insert into quotas (tenant, kind, used, cap) values ($1, $2, 0, 0)
			on conflict (tenant, kind) do update set used = quotas.used`, t, QuotaSandboxes)
		if err != nil {
			return err
		}
		wrong, err = tx.exec(ctx, `
			update quotas set used = there.n, cap = 0
			from (select count(*) as n from sandboxes where tenant = $1 and deleted_at is null) as there
			where tenant = $1 and kind = $2 and used <> there.n`, t, QuotaSandboxes)
		return err
	})
	return wrong, err
}
