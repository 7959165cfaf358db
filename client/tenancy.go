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
)

// Keys are the calls on API keys. They need a key with the scope admin.
type Keys struct{ c *Client }

// Create makes a key. The answer is the only place where its secret is ever shown.
func (k Keys) Create(ctx context.Context, want api.CreateKey) (key api.NewKey, err error) {
	_, err = k.c.do(ctx, call{op: "create key", method: http.MethodPost, path: path{keysPath}, body: want}, &key)
	return key, err
}

// List reads all keys of the tenant, revoked ones too.
func (k Keys) List(ctx context.Context) iter.Seq2[api.Key, error] {
	return all[api.Key](ctx, k.c, "list keys", nil, keysPath)
}

// Revoke ends a key at once.
func (k Keys) Revoke(ctx context.Context, id string) error {
	return k.c.remove(ctx, "revoke key", keysPath, id)
}

// Accounts are the calls on accounts. Changing them needs a key with the scope admin.
type Accounts struct{ c *Client }

// Create makes an account.
func (a Accounts) Create(ctx context.Context, want api.CreateAccount) (account api.Account, err error) {
	_, err = a.c.do(ctx, call{op: "create account", method: http.MethodPost, path: path{accountsPath}, body: want}, &account)
	return account, err
}

// Get reads one account.
func (a Accounts) Get(ctx context.Context, id string) (account api.Account, err error) {
	_, err = a.c.do(ctx, call{op: "get account", method: http.MethodGet, path: path{accountsPath, id}}, &account)
	return account, err
}

// List reads all accounts of the tenant.
func (a Accounts) List(ctx context.Context) iter.Seq2[api.Account, error] {
	return all[api.Account](ctx, a.c, "list accounts", nil, accountsPath)
}

// Delete ends an account and revokes its keys.
func (a Accounts) Delete(ctx context.Context, id string) error {
	return a.c.remove(ctx, "delete account", accountsPath, id)
}

// Agents are the calls on agents: templates with a tenant's own changes. Changing them needs a
// key with the scope admin.
type Agents struct{ c *Client }

// Create makes an agent.
func (a Agents) Create(ctx context.Context, want api.PutAgent) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "create agent", method: http.MethodPost, path: path{agentsPath}, body: want}, &agent)
	return agent, err
}

// Get reads one agent.
func (a Agents) Get(ctx context.Context, id string) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "get agent", method: http.MethodGet, path: path{agentsPath, id}}, &agent)
	return agent, err
}

// List reads all agents of the tenant.
func (a Agents) List(ctx context.Context) iter.Seq2[api.Agent, error] {
	return all[api.Agent](ctx, a.c, "list agents", nil, agentsPath)
}

// Put changes an agent.
func (a Agents) Put(ctx context.Context, id string, want api.PutAgent) (agent api.Agent, err error) {
	_, err = a.c.do(ctx, call{op: "change agent", method: http.MethodPut, path: path{agentsPath, id}, body: want}, &agent)
	return agent, err
}

// Delete ends an agent.
func (a Agents) Delete(ctx context.Context, id string) error {
	return a.c.remove(ctx, "delete agent", agentsPath, id)
}
