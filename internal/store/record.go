package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// recordKind is a table of named records of a tenant that leave tombstones: accounts, agents.
type recordKind struct {
	table      string
	noun       string
	unknown    api.Code
	perAccount bool // each record belongs to an account, which restricts access to it
}

// refuse returns the error for an insert whose id or name is taken. Records of other tenants look as if they did not
// exist.
func (k recordKind) refuse(ctx context.Context, s Scope, id, name string) error {
	op := "create " + k.noun
	type holder struct {
		tenant TenantID
		gone   bool
	}
	h, err := first(ctx, s.db.read, func(row scanner) (h holder, err error) {
		err = row.Scan(&h.tenant, &h.gone)
		return h, err
	}, `select tenant, deleted_at is not null from `+k.table+` where id = $1`, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fault.Errorf(op, api.CodeNameTaken, "another %s has the name %q", k.noun, name)
	case err != nil:
		return s.db.fail(op, err)
	case h.tenant != s.tenant:
		return k.missing(op, id)
	case h.gone:
		return deleted(op, k.noun, id)
	}
	return fault.Errorf(op, api.CodeConflict, "there is %s %s already", k.noun, id)
}

// explainMissing returns the reason why a read or write found no record: it is deleted or unknown, or was created
// since.
func (k recordKind) explainMissing(ctx context.Context, s Scope, op, id string) error {
	text, args := `select deleted_at is not null from `+k.table+` where tenant = $1 and id in ($2, $3)`, []any{s.tenant, id, s.scopedID(id)}
	if k.perAccount && s.account != "" {
		text, args = text+` and account = $4`, append(args, s.account)
	}
	gone, err := first(ctx, s.db.read, scanOne[bool], text, args...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return k.missing(op, id)
	case err != nil:
		return s.db.fail(op, err)
	case gone:
		return deleted(op, k.noun, id)
	}
	return stale(op, k.noun+" "+id)
}

func (k recordKind) missing(op, id string) error {
	return fault.Errorf(op, k.unknown, "there is no %s %s", k.noun, id)
}
