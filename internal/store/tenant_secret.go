package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/seal"
)

// TenantSecret is a value that a tenant gives to its sandboxes, without the value.
type TenantSecret struct {
	Name      string
	CreatedAt time.Time
	UpdatedAt time.Time // when the value was set
}

// MaxTenantSecrets is the number of secrets that a tenant can have.
const MaxTenantSecrets = 100

func secretValue(tenant TenantID, name string) seal.Cell {
	return seal.Cell{Tenant: string(tenant), Table: "tenant_secrets", Row: name, Column: "value"}
}

func scanTenantSecret(row scanner) (t TenantSecret, err error) {
	err = row.Scan(&t.Name, instant{&t.CreatedAt}, instant{&t.UpdatedAt})
	return t, err
}

const tenantSecretColumns = "name, created_at, updated_at"

// TenantSecrets holds the secrets of a tenant.
type TenantSecrets struct{ scope Scope }

// Secrets returns the tenant's secrets.
func (s Scope) Secrets() TenantSecrets { return TenantSecrets{s} }

// Set creates the secret or replaces its value.
func (ts TenantSecrets) Set(ctx context.Context, name, value string) (TenantSecret, error) {
	const op = "set secret"
	text, err := json.Marshal(value)
	if err != nil {
		return TenantSecret{}, err
	}
	stored, sealed, err := ts.scope.db.secrets.seal(secretValue(ts.scope.tenant, name), string(text))
	if err != nil {
		return TenantSecret{}, err
	}
	t, err := first(ctx, ts.scope.db.write, scanTenantSecret, `
		insert into tenant_secrets (tenant, name, value, sealed, created_at, updated_at)
		select cast($1 as text), cast($2 as text), cast($3 as text), cast($4 as text), {now}, {now}
		where (select count(*) from tenant_secrets where tenant = $1 and name <> $2) < $5
		on conflict (tenant, name) do update set value = excluded.value, sealed = excluded.sealed, updated_at = excluded.updated_at
		returning `+tenantSecretColumns, ts.scope.tenant, name, stored, sealed, MaxTenantSecrets)
	if errors.Is(err, sql.ErrNoRows) {
		return t, fault.Errorf(op, api.CodeQuotaExceeded, "there are %d secrets, and a tenant can have no more", MaxTenantSecrets)
	}
	return t, ts.scope.db.fail(op, err)
}

// List returns the tenant's secrets by name, without their values.
func (ts TenantSecrets) List(ctx context.Context) ([]TenantSecret, error) {
	list, err := all(ctx, ts.scope.db.read, scanTenantSecret, `select `+tenantSecretColumns+` from tenant_secrets where tenant = $1 order by name`, ts.scope.tenant)
	return list, ts.scope.db.fail("list secrets", err)
}

// Delete deletes the secret, or returns ErrNotFound.
func (ts TenantSecrets) Delete(ctx context.Context, name string) error {
	const op = "delete secret"
	n, err := ts.scope.db.write.exec(ctx, `delete from tenant_secrets where tenant = $1 and name = $2`, ts.scope.tenant, name)
	if err == nil && n == 0 {
		return fault.Errorf(op, api.CodeNotFound, "there is no secret %s", name)
	}
	return ts.scope.db.fail(op, err)
}

// Values returns the values of the tenant's secrets with the names, or of all if names is nil. names must not be
// empty. A secret that does not exist is left out. If a value cannot be decrypted, Values returns the others and an error.
func (ts TenantSecrets) Values(ctx context.Context, names []string) (map[string]string, error) {
	text, args := `select name, value from tenant_secrets where tenant = $1`, []any{ts.scope.tenant}
	if names != nil {
		places := make([]string, len(names))
		for i, name := range names {
			args = append(args, name)
			places[i] = fmt.Sprintf("$%d", len(args))
		}
		text += ` and name in (` + strings.Join(places, ", ") + `)`
	}
	rows, err := all(ctx, ts.scope.db.read, func(row scanner) (r [2]string, err error) {
		err = row.Scan(&r[0], &r[1])
		return r, err
	}, text, args...)
	if err != nil {
		return nil, ts.scope.db.fail("read secrets", err)
	}
	values := map[string]string{}
	var unread error
	for _, r := range rows {
		var value string
		if err := ts.scope.db.secrets.openJSON(secretValue(ts.scope.tenant, r[0]), r[1], &value); err != nil {
			unread = errors.Join(unread, fmt.Errorf("read secret %s: %w", r[0], err))
			continue
		}
		values[r[0]] = value
	}
	return values, unread
}
