package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// Account is a person or a service of a tenant.
type Account struct {
	ID        string // empty on create: a new id is generated
	Name      string // unique in the tenant; empty: none
	Email     string // empty: none
	CreatedAt time.Time
}

var accounts = recordKind{table: "accounts", noun: "account", unknown: api.CodeNotFound}

const accountColumns = "id, name, email, created_at"

func scanAccount(row scanner) (a Account, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Email, instant{&a.CreatedAt})
	return a, err
}

// Accounts holds the accounts of a tenant.
type Accounts struct{ scope Scope }

// Accounts returns the tenant's accounts.
func (s Scope) Accounts() Accounts { return Accounts{s} }

// Create creates an account. It returns an error if the name or the id is taken.
func (ac Accounts) Create(ctx context.Context, a Account) (Account, error) {
	if a.ID == "" {
		a.ID = NewID()
	}
	made, err := first(ctx, ac.scope.db.write, scanAccount, `
		insert into accounts (id, tenant, name, email, created_at) values ($1, $2, $3, $4, {now})
		on conflict do nothing returning `+accountColumns, a.ID, ac.scope.tenant, a.Name, a.Email)
	if errors.Is(err, sql.ErrNoRows) {
		return Account{}, accounts.refuse(ctx, ac.scope, a.ID, a.Name)
	}
	return made, ac.scope.db.fail("create account", err)
}

// Find returns the oldest account with an e-mail address, else the one with a name, or ErrNotFound.
func (ac Accounts) Find(ctx context.Context, email, name string) (Account, error) {
	const op = "find account"
	a, err := first(ctx, ac.scope.db.read, scanAccount, `
		select `+accountColumns+` from accounts
		where tenant = $1 and deleted_at is null and ($2 <> '' and lower(email) = $2 or name = $3)
		order by case when name = $3 then 1 else 0 end, created_at limit 1`, ac.scope.tenant, strings.ToLower(email), name)
	if errors.Is(err, sql.ErrNoRows) {
		return a, accounts.missing(op, name)
	}
	return a, ac.scope.db.fail(op, err)
}

// Get returns the account, or ErrNotFound or ErrDeleted.
func (ac Accounts) Get(ctx context.Context, id string) (Account, error) {
	const op = "read account"
	if ac.scope.account != "" && id != ac.scope.account {
		return Account{}, accounts.missing(op, id)
	}
	a, err := first(ctx, ac.scope.db.read, scanAccount,
		`select `+accountColumns+` from accounts where tenant = $1 and id = $2 and deleted_at is null`, ac.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return a, accounts.explainMissing(ctx, ac.scope, op, id)
	}
	return a, ac.scope.db.fail(op, err)
}

// List returns one page of the tenant's accounts, newest first, and the position of the next page.
func (ac Accounts) List(ctx context.Context, page Page) ([]Account, Position, error) {
	l := listing[Account]{
		columns: accountColumns, table: "accounts", scan: scanAccount,
		position:   func(a Account) Position { return Position{a.CreatedAt, a.ID} },
		conditions: []string{"deleted_at is null"},
	}
	l.where("tenant = $%d", ac.scope.tenant)
	if ac.scope.account != "" {
		l.where("id = $%d", ac.scope.account)
	}
	items, next, err := l.read(ctx, ac.scope.db.read, page)
	return items, next, ac.scope.db.fail("list accounts", err)
}

// Delete deletes the account for good and revokes its keys. A second call returns ErrDeleted.
func (ac Accounts) Delete(ctx context.Context, id string) error {
	const op = "delete account"
	err := ac.scope.db.inTx(ctx, func(tx *txn) error {
		n, err := tx.exec(ctx, `update accounts set deleted_at = {now} where tenant = $1 and id = $2 and deleted_at is null`, ac.scope.tenant, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return sql.ErrNoRows
		}
		_, err = tx.exec(ctx, `update api_keys set revoked_at = {now} where tenant = $1 and account = $2 and revoked_at is null`, ac.scope.tenant, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return accounts.explainMissing(ctx, ac.scope, op, id)
	}
	return ac.scope.db.fail(op, err)
}
