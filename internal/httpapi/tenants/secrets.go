package tenants

import (
	"context"
	"net/http"
	"strings"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const secretsPath = "/api/v1/secrets"

func (a *handlers) addSecrets() {
	const tag = "Secrets"
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodPut, Path: secretsPath + "/{name}", Name: "set-secret", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Create or replace a secret",
		Description: "Creates the secret or replaces its value. Sandboxes whose template names it get the value as a variable of every command and every turn that starts from then on. No answer contains the value.",
		Problems:    []api.Code{api.CodeQuotaExceeded, api.CodeSecretMismatch},
	}, a.setSecret)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: secretsPath, Name: "list-secrets", Scope: api.ScopeWrite},
		Tag:   tag, Summary: "List secrets by name, without their values", Problems: []api.Code{api.CodeInvalidCursor},
	}, a.listSecrets)
	rest.Serve(a.Spec, rest.Operation{
		Route: exchange.Route{Method: http.MethodDelete, Path: secretsPath + "/{name}", Name: "delete-secret", Scope: api.ScopeAdmin},
		Tag:   tag, Summary: "Delete a secret", Problems: []api.Code{api.CodeNotFound},
	}, a.deleteSecret)
}

// SecretName is the path parameter of routes for one secret.
type SecretName struct {
	Name string `path:"name" maxLength:"256" doc:"The name of the variable"`
}

type setSecret struct {
	SecretName
	Body api.SetSecret
}

// maxSecretBytes bounds a value. The schema bounds its characters.
const maxSecretBytes = 8 << 10

func (a *handlers) setSecret(ctx context.Context, in *setSecret) (*rest.Reply[api.Secret], error) {
	switch {
	case sandbox.CheckEnv(map[string]string{in.Name: ""}) != nil:
		return nil, exchange.InvalidField("path.name", "expected the name of a variable: A-Z, a-z, 0-9 and '_', and no digit first")
	case strings.HasPrefix(in.Name, "BERTH_"):
		return nil, exchange.InvalidField("path.name", "names that begin with BERTH_ are Berth's own")
	case strings.ContainsRune(in.Body.Value, 0):
		return nil, exchange.InvalidField("body.value", "expected text without NUL characters")
	case len(in.Body.Value) > maxSecretBytes:
		return nil, exchange.InvalidField("body.value", "expected at most 8192 bytes")
	}
	row, err := a.In(ctx).Secrets().Set(ctx, in.Name, in.Body.Value)
	if err != nil {
		return nil, err
	}
	return &rest.Reply[api.Secret]{Body: a.secretOut(ctx)(row)}, nil
}

// noID is the id in cursors of the list, whose entries have none.
const noID = "00000000-0000-0000-0000-000000000001"

func (a *handlers) listSecrets(ctx context.Context, in *struct{ rest.Paging }) (*rest.Reply[api.List[api.Secret]], error) {
	c, err := rest.ParseCursor("secrets", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, err := a.In(ctx).Secrets().List(ctx)
	if err != nil {
		return nil, err
	}
	from := int(min(c.At, int64(len(rows))))
	to := min(from+in.Limit, len(rows))
	out := rest.ListOf("secrets", rows[from:to], store.Position{}, a.secretOut(ctx))
	if to < len(rows) {
		out.Body.NextCursor = rest.Cursor{List: "secrets", At: int64(to), ID: noID}.String()
	}
	return out, nil
}

func (a *handlers) deleteSecret(ctx context.Context, in *SecretName) (*struct{}, error) {
	return nil, a.In(ctx).Secrets().Delete(ctx, in.Name)
}

func (a *handlers) secretOut(ctx context.Context) func(store.TenantSecret) api.Secret {
	return func(t store.TenantSecret) api.Secret {
		return api.Secret{Name: t.Name, Templates: a.Templates.Naming(access.TenantOf(ctx), t.Name), CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}
	}
}
