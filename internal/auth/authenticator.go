package auth

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// KeyStore is where keys are recorded.
type KeyStore interface {
	KeyByHash(ctx context.Context, hash store.KeyHash) (store.Key, error)
	TouchKey(ctx context.Context, id string) error
}

// Authenticator tells who sent a key. It keeps nothing in memory: a key that is revoked anywhere is
// refused everywhere with the next request.
type Authenticator struct{ keys KeyStore }

// NewAuthenticator returns an Authenticator over the recorded keys.
func NewAuthenticator(keys KeyStore) *Authenticator { return &Authenticator{keys} }

// touchEvery is how exact a key's time of last use is.
const touchEvery = time.Minute

// Authenticate returns who the key belongs to, or an error of code unauthenticated. That a key was
// revoked or has expired is told only to who holds the key itself; any other one is merely not valid.
func (a *Authenticator) Authenticate(ctx context.Context, key string) (Principal, error) {
	const op = "authenticate"
	if err := CheckFormat(key); err != nil {
		return Principal{}, err
	}
	k, err := a.keys.KeyByHash(ctx, Hash(key))
	now := time.Now()
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return Principal{}, sandbox.Errorf(op, api.CodeUnauthenticated, "the API key is not valid")
	case err != nil:
		return Principal{}, err
	case !k.RevokedAt.IsZero():
		return Principal{}, sandbox.Errorf(op, api.CodeUnauthenticated, "the API key was revoked at %s", k.RevokedAt.Format(time.RFC3339))
	case !k.Live(now):
		return Principal{}, sandbox.Errorf(op, api.CodeUnauthenticated, "the API key expired at %s", k.ExpiresAt.Format(time.RFC3339))
	}
	if now.Sub(k.LastUsedAt) >= touchEvery {
		_ = a.keys.TouchKey(ctx, k.ID) // who calls matters, when they did is for show
	}
	return Principal{Tenant: string(k.Tenant), AccountID: k.Account, KeyID: k.ID, KeyLabel: k.Label, Scope: Highest(k.Scopes)}, nil
}
