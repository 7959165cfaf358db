package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

// KeyHash is the SHA-256 of an API key. The key itself is never stored.
type KeyHash [sha256.Size]byte

// Key is an API key as recorded.
type Key struct {
	ID         string // empty on create: a new one is made
	Tenant     TenantID
	Account    string // empty for a key of the tenant's own
	Label      string
	Prefix     string   // the key's first characters, to recognise it by
	Scopes     []string // of read, write, admin
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time
	RevokedAt  time.Time
}

// Live reports whether the key may be used at the given time.
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

// CreateKey records a key by its hash. A hash that is recorded already, for whichever tenant, is a
// conflict.
func (s Scope) CreateKey(ctx context.Context, k Key, hash KeyHash) (Key, error) {
	const op = "create API key"
	if k.ID == "" {
		k.ID = NewID()
	}
	made, err := first(ctx, s.db.write, scanKey, `
		insert into api_keys (id, tenant, account, label, prefix, hash, scopes, created_at, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7, {now}, $8)
		on conflict do nothing returning `+keyColumns,
		k.ID, s.tenant, k.Account, k.Label, k.Prefix, hash[:], strings.Join(k.Scopes, " "), at(k.ExpiresAt))
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, sandbox.Errorf(op, api.CodeConflict, "this key exists already")
	}
	return made, s.db.fail(op, err)
}

// Keys returns one page of the tenant's keys, revoked ones too, newest first, and where the next one
// begins.
func (s Scope) Keys(ctx context.Context, page Page) ([]Key, Position, error) {
	l := listing[Key]{
		columns: keyColumns, table: "api_keys", scan: scanKey,
		position: func(k Key) Position { return Position{k.CreatedAt, k.ID} },
	}
	l.where("tenant = $%d", s.tenant)
	items, next, err := l.read(ctx, s.db.read, page)
	return items, next, s.db.fail("list API keys", err)
}

// Key returns the key, revoked or not, or ErrNotFound.
func (s Scope) Key(ctx context.Context, id string) (Key, error) {
	const op = "read API key"
	k, err := first(ctx, s.db.read, scanKey, `select `+keyColumns+` from api_keys where tenant = $1 and id = $2`, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, notFound(op, "API key", id)
	}
	return k, s.db.fail(op, err)
}

// RevokeKey makes a key useless for good. Revoking it again changes nothing.
func (s Scope) RevokeKey(ctx context.Context, id string) (Key, error) {
	const op = "revoke API key"
	k, err := first(ctx, s.db.write, scanKey, `
		update api_keys set revoked_at = coalesce(revoked_at, {now}) where tenant = $1 and id = $2
		returning `+keyColumns, s.tenant, id)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, notFound(op, "API key", id)
	}
	return k, s.db.fail(op, err)
}

// RevokeOthers makes every key of the tenant's own with this label useless, but for the one with the
// given id.
func (s Scope) RevokeOthers(ctx context.Context, label, id string) error {
	_, err := s.db.write.exec(ctx, `
		update api_keys set revoked_at = {now}
		where tenant = $1 and account = '' and label = $2 and id <> $3 and revoked_at is null`, s.tenant, label, id)
	return s.db.fail("revoke other API keys", err)
}

// HasLiveKey reports whether a key of the tenant's own with this scope may be used.
func (s Scope) HasLiveKey(ctx context.Context, scope string) (bool, error) {
	has, err := first(ctx, s.db.read, scanOne[bool], `
		select exists (select 1 from api_keys where tenant = $1 and account = '' and revoked_at is null
			and (expires_at is null or expires_at > {now}) and ' ' || scopes || ' ' like '% ' || $2 || ' %')`,
		s.tenant, scope)
	return has, s.db.fail("look for an API key", err)
}

// KeyByHash returns the key with this hash, whether it may be used or not, or ErrNotFound.
func (db *DB) KeyByHash(ctx context.Context, hash KeyHash) (Key, error) {
	const op = "find API key"
	k, err := first(ctx, db.read, scanKey, `select `+keyColumns+` from api_keys where hash = $1`, hash[:])
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, sandbox.Errorf(op, api.CodeNotFound, "there is no such key")
	}
	return k, db.fail(op, err)
}

// TouchKey records that the key was used; within a minute of the last time it writes nothing.
func (db *DB) TouchKey(ctx context.Context, id string) error {
	return db.fail("record use of API key", db.note(ctx, `
		update api_keys set last_used_at = {now}
		where id = $1 and (last_used_at is null or last_used_at <= {now-$2})`, id, time.Minute.Microseconds()))
}
