package tenants

import (
	"cmp"
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const accountsPath = "/api/v1/accounts"

func (a *handlers) addAccounts() {
	const tag = "Accounts"
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: accountsPath, Name: "create-account", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Create an account", Status: http.StatusCreated, Problems: []api.Code{api.CodeNameTaken},
	}, a.createAccount)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: accountsPath, Name: "list-accounts", Scope: api.ScopeWrite},
		Tag:   tag, Summary: "List accounts, newest first", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listAccounts)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: accountsPath + "/{id}", Name: "get-account", Scope: api.ScopeWrite},
		Tag:   tag, Summary: "Get an account", Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted},
	}, a.getAccount)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodDelete, Path: accountsPath + "/{id}", Name: "delete-account", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Delete an account and revoke its keys", Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted},
	}, a.deleteAccount)
}

func (a *handlers) createAccount(ctx context.Context, in *struct{ Body api.CreateAccount }) (*rest.Created[api.Account], error) {
	if err := cmp.Or(exchange.CheckPlain("body.name", in.Body.Name), exchange.CheckPlain("body.email", in.Body.Email)); err != nil {
		return nil, err
	}
	row := store.Account{ID: exchange.EffectID(ctx), Name: in.Body.Name, Email: in.Body.Email}
	account, err := a.In(ctx).Accounts().Create(ctx, row)
	if fault.CodeOf(err) == api.CodeConflict {
		account, err = a.In(ctx).Accounts().Get(ctx, row.ID) // made by an earlier run of this request
	}
	if err != nil {
		return nil, err
	}
	return &rest.Created[api.Account]{Status: http.StatusCreated, Location: accountsPath + "/" + account.ID, Body: accountOut(account)}, nil
}

func (a *handlers) listAccounts(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.Account]], error) {
	p, err := in.StorePage("accounts")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.In(ctx).Accounts().List(ctx, p)
	if err != nil {
		return nil, err
	}
	return rest.ListOf("accounts", rows, next, accountOut), nil
}

func (a *handlers) getAccount(ctx context.Context, in *ByID) (*rest.Reply[api.Account], error) {
	account, err := findAccount(ctx, a.In(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Account]{Body: accountOut(account)}, nil
}

func findAccount(ctx context.Context, scope store.Scope, ref string) (store.Account, error) {
	id, err := sandbox.ParseID(ref)
	if err != nil {
		return store.Account{}, err
	}
	return scope.Accounts().Get(ctx, id)
}

func (a *handlers) deleteAccount(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.In(ctx).Accounts().Delete(ctx, id)
}

func accountOut(a store.Account) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Email: a.Email, CreatedAt: a.CreatedAt}
}
