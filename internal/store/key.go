package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// KeyHash is the SHA-256 of an API key. The key itself is never stored.
type KeyHash [sha256.Size]byte

// Key is an API key as recorded.
type Key struct {
	ID         string // empty on create: a new id is generated
	Tenant     TenantID
	Account    string // empty for a key of the tenant
	Label      string
	Prefix     string   // the key's first characters, shown to people
	Scopes     []string // of read, write, admin
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time
	RevokedAt  time.Time
}

// Live reports whether the key is valid at the given time.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

const keyColumns = "id, tenant, account, label, prefix, scopes, created_at, expires_at, last_used_at, revoked_at"

func scanKey(row scanner) (k Key, err error) {
	var scopes string
	err = row.Scan(&k.ID, &k.Tenant, &k.Account, &k.Label, &k.Prefix, &scopes,
		instant{&k.CreatedAt}, instant{&k.ExpiresAt}, instant{&k.LastUsedAt}, instant{&k.RevokedAt})
	k.Scopes = strings.Fields(scopes)
	return k, err
}

// Keys holds the API keys of a tenant.
type Keys struct{ scope Scope }

// Keys returns the tenant's API keys.
func (s Scope) Keys() Keys { return Keys{s} }

// Create records a key by its hash. It returns a conflict if any tenant has a key with this hash.
func (keys Keys) Create(ctx context.Context, k Key, hash KeyHash) (Key, error) {
	const op = "create API key"
	if k.ID == "" {
		k.ID = NewID()
	}
	made, err := first(ctx, keys.scope.db.write, scanKey, `
		insert into api_keys (id, tenant, account, label, prefix, hash, scopes, created_at, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7, {now}, $8)
		on conflict do nothing returning `+keyColumns,
		k.ID, keys.scope.tenant, k.Account, k.Label, k.Prefix, hash[:], strings.Join(k.Scopes, " "), at(k.ExpiresAt))
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, fault.Errorf(op, api.CodeConflict, "this key exists already")
	}
	return made, keys.scope.db.fail(op, err)
}

// List returns one page of the tenant's keys, including revoked ones, newest first, and the position of the next
// page.
func (keys Keys) List(ctx context.Context, page Page) ([]Key, Position, error) {
	l := listing[Key]{
		columns: keyColumns, table: "api_keys", scan: scanKey,
		position: func(k Key) Position { return Position{k.CreatedAt, k.ID} },
	}
	l.where("tenant = $%d", keys.scope.tenant)
	items, next, err := l.read(ctx, keys.scope.db.read, page)
	return items, next, keys.scope.db.fail("list API keys", err)
}

// Get returns the key, even if it is revoked, or ErrNotFound.
func (keys Keys) Get(ctx context.Context, id string) (Key, error) {
	const op = "read API key"
	k, err := first(ctx, keys.scope.db.read, scanKey, `select `+keyColumns+` from api_keys where tenant = $1 and id = $2`, keys.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, notFound(op, "API key", id)
	}
	return k, keys.scope.db.fail(op, err)
}

// Revoke revokes a key for good. Revoking it again changes nothing.
func (keys Keys) Revoke(ctx context.Context, id string) (Key, error) {
	const op = "revoke API key"
	k, err := first(ctx, keys.scope.db.write, scanKey, `
		update api_keys set revoked_at = coalesce(revoked_at, {now}) where tenant = $1 and id = $2
		returning `+keyColumns, keys.scope.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, notFound(op, "API key", id)
	}
	return k, keys.scope.db.fail(op, err)
}

// RevokeOthers revokes all tenant keys with this label except the one with the given id.
func (keys Keys) RevokeOthers(ctx context.Context, label, id string) error {
	_, err := keys.scope.db.write.exec(ctx, `
		update api_keys set revoked_at = {now}
		where tenant = $1 and account = '' and label = $2 and id <> $3 and revoked_at is null`, keys.scope.tenant, label, id)
	return keys.scope.db.fail("revoke other API keys", err)
}

// HasLive reports whether the tenant has a valid key with this scope that belongs to no account.
func (keys Keys) HasLive(ctx context.Context, scope string) (bool, error) {
	has, err := first(ctx, keys.scope.db.read, scanOne[bool], `
		select exists (select 1 from api_keys where tenant = $1 and account = '' and revoked_at is null
			and (expires_at is null or expires_at > {now}) and ' ' || scopes || ' ' like '% ' || $2 || ' %')`,
		keys.scope.tenant, scope)
	return has, keys.scope.db.fail("look for an API key", err)
}

// APIKeys finds the keys of all tenants, to authenticate requests.
type APIKeys struct{ db *DB }

// APIKeys returns the keys of all tenants.
func (db *DB) APIKeys() APIKeys { return APIKeys{db} }

// ByHash returns the key with this hash, valid or not, or ErrNotFound.
func (ak APIKeys) ByHash(ctx context.Context, hash KeyHash) (Key, error) {
	const op = "find API key"
	k, err := first(ctx, ak.db.read, scanKey, `select `+keyColumns+` from api_keys where hash = $1`, hash[:])
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, fault.Errorf(op, api.CodeNotFound, "there is no such key")
	}
	return k, ak.db.fail(op, err)
}

// keysAtOnce is the number of ids in one statement.
const keysAtOnce = 500

// ByID returns the keys with these ids, of all tenants, valid or not. Unknown ids are left out.
func (ak APIKeys) ByID(ctx context.Context, ids []string) (keys []Key, err error) {
	for some := range slices.Chunk(ids, keysAtOnce) {
		args, places := make([]any, len(some)), make([]string, len(some))
		for i, id := range some {
			args[i], places[i] = id, fmt.Sprintf("$%d", i+1)
		}
		found, err := all(ctx, ak.db.read, scanKey, `select `+keyColumns+` from api_keys where id in (`+strings.Join(places, ", ")+`)`, args...)
		if err != nil {
			return nil, ak.db.fail("read API keys", err)
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

// Touch records a use of the key, at most once a minute.
func (ak APIKeys) Touch(ctx context.Context, id string) error {
	return ak.db.fail("record use of API key", ak.db.execRelaxed(ctx, `
		update api_keys set last_used_at = {now}
		where id = $1 and (last_used_at is null or last_used_at <= {now-$2})`, id, time.Minute.Microseconds()))
}
