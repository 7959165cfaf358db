package store

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// The kinds of objects that are counted per tenant.
const (
	QuotaSandboxes = "sandboxes" // sandboxes that are not deleted
	QuotaTurns     = "turns"     // running turns
)

// count is the effect of a change on a quota. The counter's row changes in the statement or transaction that
// creates or deletes the object, and its check constraint enforces the cap. There is no separate check before the
// insert.
type count struct {
	by  int64
	cap int64
}

var freed = count{by: -1}

func countOne(cap int64) count { return count{by: 1, cap: cap} }

// text returns the statement that counts the sandbox in source, a table with a condition; its arguments follow n
// others.
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

// countUp returns the statement that adds one for the row in source, under the cap in argument n. Without a
// condition in source, SQLite would parse "on conflict" as a join condition.
func countUp(columns, source string, n int) string {
	return fmt.Sprintf(`insert into quotas (tenant, kind, used, cap)
		select %s, 1, cast($%d as bigint) from %s
		on conflict (tenant, kind) do update set used = quotas.used + 1, cap = excluded.cap`, columns, n, source)
}

func overQuota(op, kind string, cap int64) error {
	e := fault.Errorf(op, api.CodeQuotaExceeded, "the tenant may have %d %s at once, and has them", cap, kind)
	e.Hint = fmt.Sprintf("%s, or raise max_%s_per_tenant.", quotaHints[kind], kind)
	return e
}

// quotaHints contains hints that say how to make room for another object of a kind.
var quotaHints = map[string]string{
	QuotaSandboxes: "Delete one that is not needed: a stopped or terminated one counts, too",
	QuotaTurns:     "Wait until one ends",
}

// QuotaUsed returns the number of objects of a kind that the tenant has.
func (slots Reservations) QuotaUsed(ctx context.Context, kind string) (int64, error) {
	used, err := all(ctx, slots.scope.db.read, scanOne[int64], `select used from quotas where tenant = $1 and kind = $2`, slots.scope.tenant, kind)
	if err != nil || len(used) == 0 {
		return 0, slots.scope.db.fail("read quota", err)
	}
	return used[0], nil
}

// Recount corrects all tenants' counts of sandboxes and returns how many were wrong. Counts are wrong only if servers
// of a version without quotas ran at the same time.
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

// recount locks the tenant's counter first, so that no sandbox is between its insert and its count. It drops the
// cap, because there may be more; the next create sets it again.
func (db *DB) recount(ctx context.Context, t TenantID) (wrong int64, err error) {
	err = db.inTx(ctx, func(tx *txn) error {
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
