// Package auth identifies callers and their permissions.
//
// [Generate] makes an API key, of which only the [Hash] is stored. [Authenticator] finds the [Principal] of a received
// key: a tenant and a scope, which [Includes] compares. [Sessions] does so for the cookie of a browser that signed in, and
// [URLs] for signed URLs of a sandbox's port. [Bootstrap] ensures that a new server has an admin key. [UseSecret] loads
// the root secret, from which the keys that encrypt stored values and sign cookies and URLs are derived. Both store their
// files in the data directory, readable only by the server's user.
package auth

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// KeyStore reads recorded keys.
type KeyStore interface {
	ByHash(ctx context.Context, hash store.KeyHash) (store.Key, error)
	Touch(ctx context.Context, id string) error
}

// Authenticator finds the principal of a key. It caches nothing, so that all servers refuse a revoked key at once.
type Authenticator struct{ keys KeyStore }

// NewAuthenticator returns an Authenticator for the recorded keys.
func NewAuthenticator(keys KeyStore) *Authenticator { return &Authenticator{keys} }

// touchEvery is the precision of a key's recorded time of last use.
const touchEvery = time.Minute

// Authenticate returns the principal of the key, or an error with code unauthenticated. The error tells unknown,
// revoked and expired keys apart.
func (a *Authenticator) Authenticate(ctx context.Context, key string) (Principal, error) {
	const op = "authenticate"
	if err := CheckFormat(key); err != nil {
		return Principal{}, err
	}
	k, err := a.keys.ByHash(ctx, Hash(key))
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return Principal{}, fault.Errorf(op, api.CodeUnauthenticated, "the API key is not valid")
	case err != nil:
		return Principal{}, err
	}
	if err := checkLive(op, k); err != nil {
		return Principal{}, err
	}
	if time.Since(k.LastUsedAt) >= touchEvery {
		_ = a.keys.Touch(ctx, k.ID) // an error is ignored: the time of last use is only informational
	}
	return principalOf(k), nil
}

// checkLive returns an error if the key was revoked or has expired.
func checkLive(op string, k store.Key) error {
	switch {
	case !k.RevokedAt.IsZero():
		return fault.Errorf(op, api.CodeUnauthenticated, "the API key was revoked at %s", k.RevokedAt.Format(time.RFC3339))
	case !k.Live(time.Now()):
		return fault.Errorf(op, api.CodeUnauthenticated, "the API key expired at %s", k.ExpiresAt.Format(time.RFC3339))
	}
	return nil
}

func principalOf(k store.Key) Principal {
	return Principal{Tenant: string(k.Tenant), AccountID: k.Account, KeyID: k.ID, KeyLabel: k.Label, Scope: Highest(k.Scopes)}
}
