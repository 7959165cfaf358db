package store

import (
	"context"
	"time"
)

// Tenant is an organisation. Its users never see data of other tenants.
type Tenant struct {
	ID        TenantID
	Name      string
	CreatedAt time.Time
}

// TenantTable holds the tenants of the installation.
type TenantTable struct{ db *DB }

// Tenants returns the tenants.
func (db *DB) Tenants() TenantTable { return TenantTable{db} }

// Ensure creates the tenant if it does not exist; an existing one keeps its name.
func (tenants TenantTable) Ensure(ctx context.Context, id TenantID, name string) error {
	_, err := tenants.db.write.exec(ctx, `insert into tenants (id, name, created_at) values ($1, $2, {now}) on conflict do nothing`, id, name)
	return tenants.db.fail("record tenant", err)
}

// List returns one page of all tenants, newest first, and the position of the next page.
func (tenants TenantTable) List(ctx context.Context, page Page) ([]Tenant, Position, error) {
	l := listing[Tenant]{
		columns: "id, name, created_at", table: "tenants",
		scan: func(row scanner) (t Tenant, err error) {
			err = row.Scan(&t.ID, &t.Name, instant{&t.CreatedAt})
			return t, err
		},
		position: func(t Tenant) Position { return Position{t.CreatedAt, string(t.ID)} },
	}
	items, next, err := l.read(ctx, tenants.db.read, page)
	return items, next, tenants.db.fail("list tenants", err)
}
