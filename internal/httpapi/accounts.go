package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const accountsPath = "/api/v1/accounts"

func (a *Handler) addAccounts() {
	const tag = "Accounts"
	serve(a, operation{
		route: route{Method: http.MethodPost, Path: accountsPath, Name: "create-account", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Make an account", Status: http.StatusCreated, Problems: []api.Code{api.CodeNameTaken},
	}, a.createAccount)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: accountsPath, Name: "list-accounts", Scope: api.ScopeRead},
		Tag:   tag, Summary: "List accounts, newest first", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listAccounts)
	serve(a, operation{
		route: route{Method: http.MethodGet, Path: accountsPath + "/{id}", Name: "get-account", Scope: api.ScopeRead},
		Tag:   tag, Summary: "Read an account", Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted},
	}, a.getAccount)
	serve(a, operation{
		route: route{Method: http.MethodDelete, Path: accountsPath + "/{id}", Name: "delete-account", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Delete an account and revoke its keys", Problems: []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted},
	}, a.deleteAccount)
}

func (a *Handler) createAccount(ctx context.Context, in *struct{ Body api.CreateAccount }) (*made[api.Account], error) {
	if err := cmp.Or(checkPlain("body.name", in.Body.Name), checkPlain("body.email", in.Body.Email)); err != nil {
		return nil, err
	}
	row := store.Account{ID: effectID(ctx), Name: in.Body.Name, Email: in.Body.Email}
	account, err := a.in(ctx).CreateAccount(ctx, row)
	if sandbox.CodeOf(err) == api.CodeConflict {
		account, err = a.in(ctx).Account(ctx, row.ID) // made by an earlier run of this request
	}
	if err != nil {
		return nil, err
	}
	return &made[api.Account]{http.StatusCreated, accountsPath + "/" + account.ID, accountOut(account)}, nil
}

func (a *Handler) listAccounts(ctx context.Context, in *struct{ Paging }) (*reply[api.List[api.Account]], error) {
	p, err := in.storePage("accounts")
	if err != nil {
		return nil, err
	}
	rows, next, err := a.in(ctx).Accounts(ctx, p)
	if err != nil {
		return nil, err
	}
	return listOf("accounts", rows, next, accountOut), nil
}

func (a *Handler) getAccount(ctx context.Context, in *ByID) (*reply[api.Account], error) {
	account, err := findAccount(ctx, a.in(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &reply[api.Account]{accountOut(account)}, nil
}

func findAccount(ctx context.Context, scope store.Scope, ref string) (store.Account, error) {
	id, err := sandbox.ParseID(ref)
	if err != nil {
		return store.Account{}, err
	}
	return scope.Account(ctx, id)
}

func (a *Handler) deleteAccount(ctx context.Context, in *ByID) (*struct{}, error) {
	id, err := sandbox.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.in(ctx).DeleteAccount(ctx, id)
}

func accountOut(a store.Account) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Email: a.Email, CreatedAt: a.CreatedAt}
}
