package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/sandbox"
)

// PreviewURL is a signed URL of one port, or one terminal, of a sandbox.
type PreviewURL struct {
	ID        string // empty on create: a new id is generated
	Tenant    TenantID
	Sandbox   string // the stored id
	Port      uint16 // zero: a terminal
	Terminal  string // the id of the terminal's command
	ViewOnly  bool   // the terminal may only be looked at
	Key       Key    // the key that made it and with which it ends
	CreatedAt time.Time
	ExpiresAt time.Time
	RevokedAt time.Time
}

// Live reports whether the URL is valid at the given time.
func (u PreviewURL) Live(now time.Time) bool {
	return u.RevokedAt.IsZero() && now.Before(u.ExpiresAt) && u.Key.Live(now)
}

// keptExpired is the time for which an expired URL is kept, so that the answer can say that it has expired.
const keptExpired = 24 * time.Hour

// PreviewURLs holds the signed URLs of a tenant.
type PreviewURLs struct{ scope Scope }

// URLs returns the tenant's signed URLs. They end with the keys that made them.
func (keys Keys) URLs() PreviewURLs { return PreviewURLs(keys) }

// Create records a URL that expires after the given time. It returns a conflict if its id is taken. It also removes
// URLs that expired long ago.
func (urls PreviewURLs) Create(ctx context.Context, u PreviewURL, lifetime time.Duration) (PreviewURL, error) {
	const op = "create preview URL"
	if u.ID == "" {
		u.ID = NewID()
	}
	db := urls.scope.db
	if _, err := db.write.exec(ctx, `delete from preview_urls where expires_at < {now-$1}`, keptExpired.Microseconds()); err != nil {
		return u, db.fail(op, err)
	}
	u.Tenant = urls.scope.tenant
	u, err := first(ctx, db.write, func(row scanner) (PreviewURL, error) {
		err := row.Scan(instant{&u.CreatedAt}, instant{&u.ExpiresAt})
		return u, err
	}, `insert into preview_urls (id, tenant, sandbox, port, key_id, created_at, expires_at, terminal, view_only)
		values ($1, $2, $3, $4, $5, {now}, {now+$6}, $7, $8)
		on conflict do nothing returning created_at, expires_at`,
		u.ID, u.Tenant, u.Sandbox, u.Port, u.Key.ID, lifetime.Microseconds(), u.Terminal, u.ViewOnly)
	if errors.Is(err, sql.ErrNoRows) {
		return u, fault.Errorf(op, api.CodeConflict, "this URL exists already")
	}
	return u, db.fail(op, err)
}

// Revoke revokes the URLs of a port, or only the one with the id if it is not empty. It returns the ids of those that it
// has revoked.
func (urls PreviewURLs) Revoke(ctx context.Context, sandbox string, port uint16, id string) ([]string, error) {
	ids, err := all(ctx, urls.scope.db.write, scanOne[string], `
		update preview_urls set revoked_at = {now}
		where tenant = $1 and sandbox = $2 and port = $3 and revoked_at is null and ($4 = '' or id = $4)
		returning id`, urls.scope.tenant, sandbox, port, id)
	return ids, urls.scope.db.fail("revoke preview URLs", err)
}

// RevokeTerminals revokes the URLs of a sandbox's terminals, or only those of one, and returns the ids of those that it has
// revoked.
func (urls PreviewURLs) RevokeTerminals(ctx context.Context, sandbox, terminal string) ([]string, error) {
	ids, err := all(ctx, urls.scope.db.write, scanOne[string], `
		update preview_urls set revoked_at = {now}
		where tenant = $1 and sandbox = $2 and port = 0 and revoked_at is null and ($3 = '' or terminal = $3)
		returning id`, urls.scope.tenant, sandbox, terminal)
	return ids, urls.scope.db.fail("revoke URLs of terminals", err)
}

// AllPreviewURLs finds the signed URLs of all tenants, to authenticate requests.
type AllPreviewURLs struct{ db *DB }

// URLs returns the signed URLs of all tenants.
func (ak APIKeys) URLs() AllPreviewURLs { return AllPreviewURLs(ak) }

// ByID returns the URLs with these ids, valid or not, with their keys. Unknown ids are left out.
func (urls AllPreviewURLs) ByID(ctx context.Context, ids []string) (found []PreviewURL, err error) {
	for some := range slices.Chunk(ids, keysAtOnce) {
		args, places := make([]any, len(some)), make([]string, len(some))
		for i, id := range some {
			args[i], places[i] = id, fmt.Sprintf("$%d", i+1)
		}
		more, err := all(ctx, urls.db.read, scanPreviewURL, `
			select u.id, u.tenant, u.sandbox, u.port, u.created_at, u.expires_at, u.revoked_at, u.terminal, u.view_only,
				k.id, k.tenant, k.account, k.label, k.prefix, k.scopes, k.created_at, k.expires_at, k.last_used_at, k.revoked_at
			from preview_urls u join api_keys k on k.id = u.key_id
			where u.id in (`+strings.Join(places, ", ")+`)`, args...)
		if err != nil {
			return nil, urls.db.fail("read preview URLs", err)
		}
		found = append(found, more...)
	}
	return found, nil
}

func scanPreviewURL(row scanner) (u PreviewURL, err error) {
	u.Key, err = scanKey(prefixScanner{row, []any{
		&u.ID, &u.Tenant, &u.Sandbox, &u.Port, instant{&u.CreatedAt}, instant{&u.ExpiresAt}, instant{&u.RevokedAt}, &u.Terminal, &u.ViewOnly,
	}})
	return u, err
}

// RecordExposed records the URL at which a provider serves the agent's port of a sandbox's instance, with the time for
// which it is valid. It records nothing if the sandbox has another instance by now.
func (urls AllPreviewURLs) RecordExposed(ctx context.Context, s sandbox.Sandbox, url, token string, lifetime time.Duration) error {
	_, err := urls.db.write.exec(ctx, `
		update sandboxes set preview_url = $3, preview_token = $4, preview_expires_at = {now+$5} where id = $1 and instance = $2`,
		s.ID, s.Instance, url, token, lifetime.Microseconds())
	return urls.db.fail("record the provider's URL", err)
}

// ExpireExposed removes up to limit URLs of providers that have expired, and returns how many.
func (urls AllPreviewURLs) ExpireExposed(ctx context.Context, limit int) (int64, error) {
	n, err := urls.db.write.exec(ctx, `
		update sandboxes set preview_url = null, preview_token = null, preview_expires_at = null where id in
			(select id from sandboxes where preview_expires_at <= {now} order by preview_expires_at limit $1 {skip locked})`, clampLimit(limit))
	return n, urls.db.recordScan("expire URLs of providers", err)
}
