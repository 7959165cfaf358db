package api

import (
	"encoding/json"
	"time"
)

// Account is a user or a service of a tenant.
type Account struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateAccount is the request to create an account.
type CreateAccount struct {
	Name  string `json:"name" minLength:"1" maxLength:"200"`
	Email string `json:"email,omitempty" maxLength:"320"`
}

// Scope defines the operations that a key allows. The order is read, write, admin; each scope includes the ones
// before it.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write"
	ScopeAdmin Scope = "admin"
)

// Key is an API key without its secret.
type Key struct {
	ID         string     `json:"id"`
	Label      string     `json:"label,omitempty"`
	Prefix     string     `json:"prefix" doc:"The first characters of the key"`
	Scope      Scope      `json:"scope" enum:"read,write,admin"`
	AccountID  string     `json:"account_id,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// CreateKey is the request to create an API key.
type CreateKey struct {
	Label     string     `json:"label,omitempty" maxLength:"200"`
	Scope     Scope      `json:"scope,omitempty" enum:"read,write,admin" doc:"The scope; default: write"`
	AccountID string     `json:"account_id,omitempty"`
	Tenant    string     `json:"tenant,omitempty" doc:"The key's tenant, which is created if needed; only an admin key of the tenant 'default' can name another tenant"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// NewKey is a new API key with its secret. No later answer contains the secret.
type NewKey struct {
	Key
	Secret string `json:"secret" doc:"The key; it is stored as a hash and never returned again"`
}

// Agent is an agent of a tenant: a template with overrides. Requests name it by agent_id.
type Agent struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Template  string          `json:"template"`
	Overrides json.RawMessage `json:"overrides,omitempty" doc:"Overrides of the template: model, profile and env. Values of env are masked for keys without the scope admin"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// PutAgent is the request to create or change an agent.
type PutAgent struct {
	Name      string          `json:"name" minLength:"1" maxLength:"200"`
	Template  string          `json:"template,omitempty" maxLength:"63"`
	Overrides json.RawMessage `json:"overrides,omitempty" doc:"Overrides of the template: model (text), profile (lite, standard or full) and env (an object of variables)"`
}

// Caller is the key that a request was sent with.
type Caller struct {
	Tenant    string `json:"tenant"`
	AccountID string `json:"account_id,omitempty" doc:"The account that the key is bound to"`
	KeyID     string `json:"key_id"`
	Label     string `json:"label,omitempty"`
	Scope     Scope  `json:"scope" enum:"read,write,admin"`
}

// SignInLink is a link that signs a browser in once.
type SignInLink struct {
	Path      string    `json:"path" doc:"The link, below the server's address"`
	ExpiresAt time.Time `json:"expires_at"`
}
