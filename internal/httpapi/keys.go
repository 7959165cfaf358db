package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const keysPath = "/api/v1/keys"

func (a *Handler) addKeys() {
	const tag = "Keys"
	serve(a, operation{
		route:   route{Method: http.MethodPost, Path: keysPath, Name: "create-key", Scope: api.ScopeAdmin, Secret: true},
		Tag:     tag,
		Summary: "Make an API key",
		Description: "The answer is the only place where the key itself is ever shown. It is therefore not stored for the Idempotency-Key either: " +
			"the same request sent again makes no second key and answers 409 not_replayable, with the first one's Location.",
		Status: http.StatusCreated, Problems: []api.Code{api.CodeInvalidID, api.CodeInvalidName, api.CodeNotFound, api.CodeDeleted, api.CodeNotReplayable},
	}, a.createKey)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: keysPath, Name: "list-keys", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "List API keys, newest first, revoked ones too", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listKeys)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: keysPath + "/{id}", Name: "get-key", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Read an API key, revoked or not; never its secret",
		Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound},
	}, a.getKey)
	serve(a, operation{
		route: route{Method: http.MethodDelete, Path: keysPath + "/{id}", Name: "revoke-key", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Revoke an API key at once; again changes nothing",
		Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound},
	}, a.revokeKey)
}

type createKey struct {
	Body *api.CreateKey
}

func (a *Handler) createKey(ctx context.Context, in *createKey) (*made[api.NewKey], error) {
	want := api.CreateKey{}
	if in.Body != nil {
		want = *in.Body
	}
	if err := checkPlain("body.label", want.Label); err != nil {
		return nil, err
	}
	scope, err := a.tenantOf(ctx, want.Tenant)
	if err != nil {
		return nil, err
	}
	row, err := keyRow(ctx, scope, want)
	if err != nil {
		return nil, err
	}
	secret := auth.Generate()
	a.Redactor.Add(secret)
	row.Prefix = auth.Prefix(secret)
	k, err := scope.CreateKey(ctx, row, auth.Hash(secret))
	if sandbox.CodeOf(err) == api.CodeConflict {
		// The id is the claim's: an earlier run made the key, and its answer was lost with the secret.
		p := newProblem(api.CodeNotReplayable, "the first request with this Idempotency-Key made a key, but its answer was lost")
		p.headers.Set("Location", keysPath+"/"+row.ID)
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	return &made[api.NewKey]{http.StatusCreated, keysPath + "/" + k.ID, api.NewKey{Key: keyOut(k), Secret: secret}}, nil
}

// tenantOf is the part of the store that a new key is for. The admins of the default tenant run the
// server: they alone open other tenants, by making a key for one.
func (a *Handler) tenantOf(ctx context.Context, name string) (store.Scope, error) {
	who, _ := auth.PrincipalFrom(ctx)
	if name == "" || name == who.Tenant {
		return a.in(ctx), nil
	}
	tenant := store.TenantID(name)
	if store.TenantID(who.Tenant) != auth.DefaultTenant {
		return store.Scope{}, sandbox.Errorf("", api.CodeForbidden, "a key for another tenant needs an admin key of the tenant %s", auth.DefaultTenant)
	}
	if err := sandbox.CheckName(name); err != nil {
		return store.Scope{}, err
	}
	return a.Store.In(tenant), a.Store.EnsureTenant(ctx, tenant, name)
}

func keyRow(ctx context.Context, in store.Scope, want api.CreateKey) (store.Key, error) {
	row := store.Key{ID: effectID(ctx), Label: want.Label, Scopes: []string{string(api.ScopeWrite)}}
	if want.Scope != "" {
		row.Scopes = []string{string(want.Scope)}
	}
	if want.ExpiresAt != nil {
		if !want.ExpiresAt.After(time.Now()) {
			return row, invalidField("body.expires_at", "expected a time that is not past")
		}
		row.ExpiresAt = *want.ExpiresAt
	}
	if want.AccountID != "" {
		account, err := findAccount(ctx, in, want.AccountID)
		if err != nil {
			return row, err
		}
		row.Account = account.ID
	}
	return row, nil
}

func (a *Handler) listKeys(ctx context.Context, in *struct{ Paging }) (*reply[api.List[api.Key]], error) {
	p, err := in.storePage("keys")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Keys(ctx, p)
	if err != nil {
		return nil, err
	}
	return listOf("keys", rows, next, keyOut), nil
}

// ByID names one thing in a path by its id alone.
type ByID struct {
	ID string `path:"id" doc:"Its id"`
}

func (a *Handler) getKey(ctx context.Context, in *ByID) (*reply[api.Key], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	k, err := a.in(ctx).Key(ctx, id)
	if err != nil {
		return nil, err
	}
	return &reply[api.Key]{keyOut(k)}, nil
}

func (a *Handler) revokeKey(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	_, err = a.in(ctx).RevokeKey(ctx, id)
	return nil, err
}

func keyOut(k store.Key) api.Key {
	return api.Key{
		ID: k.ID, Label: k.Label, Prefix: k.Prefix, Scope: auth.Highest(k.Scopes), AccountID: k.Account,
		CreatedAt: k.CreatedAt, LastUsedAt: moment(k.LastUsedAt), ExpiresAt: moment(k.ExpiresAt), RevokedAt: moment(k.RevokedAt),
	}
}
