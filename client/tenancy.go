package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/berthdev/berth/api"
)

const (
	keysPath     = "/api/v1/keys"
	accountsPath = "/api/v1/accounts"
	agentsPath   = "/api/v1/agents"
	secretsPath  = "/api/v1/secrets"
)

// Keys groups the calls for API keys. They need a key with the scope admin.
type Keys struct{ c *Client }

// Create creates a key. Only this answer contains the key's secret.
func (k Keys) Create(ctx context.Context, want api.CreateKey) (key api.NewKey, err error) {
	_, err = k.c.do(ctx, call{op: "create key", method: http.MethodPost, path: path{keysPath}, body: want}, &key)
	return key, err
}

// List yields all keys of the tenant, including revoked keys.
func (k Keys) List(ctx context.Context) iter.Seq2[api.Key, error] {
	return all[api.Key](ctx, k.c, "list keys", nil, keysPath)
}

// Revoke revokes a key immediately.
func (k Keys) Revoke(ctx context.Context, id string) error {
	return k.c.remove(ctx, "revoke key", keysPath, id)
}

// Caller returns the key that the client uses, and what it may do. It needs no more than the scope read.
func (k Keys) Caller(ctx context.Context) (caller api.Caller, err error) {
	_, err = k.c.do(ctx, call{op: "get caller", method: http.MethodGet, path: path{"/api/v1/caller"}}, &caller)
	return caller, err
}

// SignInLink creates a link that signs a browser in once, with the key that the client uses.
func (k Keys) SignInLink(ctx context.Context) (link api.SignInLink, err error) {
	_, err = k.c.do(ctx, call{op: "create sign-in link", method: http.MethodPost, path: path{"/api/v1/caller/link"}}, &link)
	return link, err
}

// Accounts groups the calls for accounts. Changes need a key with the scope admin.
type Accounts struct{ c *Client }

// Create creates an account.
func (a Accounts) Create(ctx context.Context, want api.CreateAccount) (account api.Account, err error) {
	_, err = a.c.do(ctx, call{op: "create account", method: http.MethodPost, path: path{accountsPath}, body: want}, &account)
	return account, err
}

// Get gets one account.
func (a Accounts) Get(ctx context.Context, id string) (account api.Account, err error) {
	_, err = a.c.do(ctx, call{op: "get account", method: http.MethodGet, path: path{accountsPath, id}}, &account)
	return account, err
}

// List yields all accounts of the tenant.
func (a Accounts) List(ctx context.Context) iter.Seq2[api.Account, error] {
	return all[api.Account](ctx, a.c, "list accounts", nil, accountsPath)
}

// Delete deletes an account and revokes its keys.
func (a Accounts) Delete(ctx context.Context, id string) error {
	return a.c.remove(ctx, "delete account", accountsPath, id)
}

// Agents groups the calls for agents. An agent is a template with a tenant's overrides. Changes need a key with the
// scope admin.
type Agents struct{ c *Client }

// Create creates an agent.
func (a Agents) Create(ctx context.Context, want api.PutAgent) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "create agent", method: http.MethodPost, path: path{agentsPath}, body: want}, &agent)
	return agent, err
}

// Get gets one agent.
func (a Agents) Get(ctx context.Context, id string) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "get agent", method: http.MethodGet, path: path{agentsPath, id}}, &agent)
	return agent, err
}

// List yields all agents of the tenant.
func (a Agents) List(ctx context.Context) iter.Seq2[api.Agent, error] {
	return all[api.Agent](ctx, a.c, "list agents", nil, agentsPath)
}

// Put changes an agent.
func (a Agents) Put(ctx context.Context, id string, want api.PutAgent) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "change agent", method: http.MethodPut, path: path{agentsPath, id}, body: want}, &agent)
	return agent, err
}

// Delete deletes an agent.
func (a Agents) Delete(ctx context.Context, id string) error {
	return a.c.remove(ctx, "delete agent", agentsPath, id)
}

// Secrets groups the calls for secrets: values that sandboxes get as variables. Changes need a key with the scope
// admin. No answer contains a value.
type Secrets struct{ c *Client }

// Set creates a secret or replaces its value.
func (s Secrets) Set(ctx context.Context, name, value string) (secret api.Secret, err error) {
	_, err = s.c.do(ctx, call{op: "set secret", method: http.MethodPut, path: path{secretsPath, name}, body: api.SetSecret{Value: value}}, &secret)
	return secret, err
}

// List yields all secrets of the tenant by name.
func (s Secrets) List(ctx context.Context) iter.Seq2[api.Secret, error] {
	return all[api.Secret](ctx, s.c, "list secrets", nil, secretsPath)
}

// Delete deletes a secret.
func (s Secrets) Delete(ctx context.Context, name string) error {
	return s.c.remove(ctx, "delete secret", secretsPath, name)
}
