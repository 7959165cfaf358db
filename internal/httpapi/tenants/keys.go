package tenants

import (
	"context"
	"net/http"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const keysPath = "/api/v1/keys"

func (a *handlers) addKeys() {
	const tag = "Keys"
	rest.Serve(a.Spec, rest.Operation{
		Route:   exchange.Route{Method: http.MethodPost, Path: keysPath, Name: "create-key", Scope: api.ScopeAdmin, Secret: true},
		Tag:     tag,
		Summary: "Create an API key",
		Description: "The secret is returned only once and is not stored for the Idempotency-Key: " +
			"a repeated request creates no second key and returns 409 not_replayable with the first key's Location.",
		Status: http.StatusCreated, Problems: []api.Code{api.CodeInvalidID, api.CodeInvalidName, api.CodeNotFound, api.CodeDeleted, api.CodeNotReplayable},
	}, a.createKey)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: "/api/v1/caller", Name: "get-caller", Scope: api.ScopeRead},
		Tag:   tag, Summary: "Get the key of the caller and its scope",
	}, a.getCaller)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: keysPath, Name: "list-keys", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "List API keys, newest first, including revoked ones", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listKeys)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: keysPath + "/{id}", Name: "get-key", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Get an API key, without its secret",
		Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound},
	}, a.getKey)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodDelete, Path: keysPath + "/{id}", Name: "revoke-key", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Revoke an API key",
		Description: "Open requests, streams, terminals and previews of the key end within two seconds on every server, with the code key_revoked. Commands that they started continue. Revoking a key again has no effect.",
		Problems:    []api.Code{api.CodeInvalidID, api.CodeNotFound},
	}, a.revokeKey)
}

func (a *handlers) getCaller(ctx context.Context, _ *struct{}) (*rest.Reply[api.Caller], error) {
	who, _ := auth.PrincipalFrom(ctx)
	return &rest.Reply[api.Caller]{Body: api.Caller{Tenant: who.Tenant, AccountID: who.AccountID, KeyID: who.KeyID, Label: who.KeyLabel, Scope: who.Scope}}, nil
}

type createKey struct {
	Body *api.CreateKey
}

func (a *handlers) createKey(ctx context.Context, in *createKey) (*rest.Created[api.NewKey], error) {
	want := api.CreateKey{}
	if in.Body != nil {
		want = *in.Body
	}
	if err := exchange.CheckPlain("body.label", want.Label); err != nil {
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
	k, err := scope.Keys().Create(ctx, row, auth.Hash(secret))
	if fault.CodeOf(err) == api.CodeConflict {
		// The id belongs to the claim: an earlier run created the key, and its answer with the secret was lost.
		p := exchange.NewProblem(api.CodeNotReplayable, "the first request with this Idempotency-Key made a key, but its answer was lost")
		p.Headers.Set("Location", keysPath+"/"+row.ID)
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	return &rest.Created[api.NewKey]{Status: http.StatusCreated, Location: keysPath + "/" + k.ID, Body: api.NewKey{Key: keyOut(k), Secret: secret}}, nil
}

// tenantOf returns the part of the store that a new key is for. Only admins of the default tenant, who run the
// server, may create a key for another tenant; that also creates the tenant if needed.
func (a *handlers) tenantOf(ctx context.Context, name string) (store.Scope, error) {
	who, _ := auth.PrincipalFrom(ctx)
	if name == "" || name == who.Tenant {
		return a.In(ctx), nil
	}
	tenant := store.TenantID(name)
	if store.TenantID(who.Tenant) != auth.DefaultTenant {
		return store.Scope{}, fault.Errorf("", api.CodeForbidden, "a key for another tenant needs an admin key of the tenant %s", auth.DefaultTenant)
	}
	if err := sandbox.CheckName(name); err != nil {
		return store.Scope{}, err
	}
	return a.Store.In(tenant), a.Store.Tenants().Ensure(ctx, tenant, name)
}

func keyRow(ctx context.Context, in store.Scope, want api.CreateKey) (store.Key, error) {
	row := store.Key{ID: exchange.EffectID(ctx), Label: want.Label, Scopes: []string{string(api.ScopeWrite)}}
	if want.Scope != "" {
		row.Scopes = []string{string(want.Scope)}
	}
	if want.ExpiresAt != nil {
		if !want.ExpiresAt.After(time.Now()) {
			return row, exchange.InvalidField("body.expires_at", "expected a time that is not past")
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

func (a *handlers) listKeys(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.Key]], error) {
	p, err := in.StorePage("keys")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Keys().List(ctx, p)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("keys", rows, next, keyOut), nil
}

// ByID is the path parameter of routes for one resource, which is named by its id.
type ByID struct {
	ID string `path:"id" doc:"The id"`
}

func (a *handlers) getKey(ctx context.Context, in *ByID) (*rest.Reply[api.Key], error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	k, err := a.In(ctx).Keys().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Key]{Body: keyOut(k)}, nil
}

func (a *handlers) revokeKey(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	if own := exchange.Of(ctx).Session; own != nil && own.Key == id {
		own.Spared.Store(true)
	}
	k, err := a.In(ctx).Keys().Revoke(ctx, id)
	if err != nil {
		return nil, err
	}
	a.Sessions.End(id, exchange.EndOfKey(api.CodeKeyRevoked, "the API key of this request was revoked at %s", k.RevokedAt.UTC().Format(time.RFC3339)))
	return nil, nil
}

func keyOut(k store.Key) api.Key {
	return api.Key{
		ID: k.ID, Label: k.Label, Prefix: k.Prefix, Scope: auth.Highest(k.Scopes), AccountID: k.Account,
		CreatedAt: k.CreatedAt, LastUsedAt: access.TimePtr(k.LastUsedAt), ExpiresAt: access.TimePtr(k.ExpiresAt), RevokedAt: access.TimePtr(k.RevokedAt),
	}
}
