package api

import (
	"encoding/json"
	"time"
)

// Account is a person or a service in a tenant.
type Account struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateAccount asks for an account.
type CreateAccount struct {
	Name  string `json:"name" minLength:"1" maxLength:"200"`
	Email string `json:"email,omitempty" maxLength:"320"`
}

// Scope is what a key may do. Each includes those before it: read, write, admin.
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
	Prefix     string     `json:"prefix" doc:"First characters of the key, to recognise it by"`
	Scope      Scope      `json:"scope" enum:"read,write,admin"`
	AccountID  string     `json:"account_id,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// CreateKey asks for an API key.
type CreateKey struct {
	Label     string     `json:"label,omitempty" maxLength:"200"`
	Scope     Scope      `json:"scope,omitempty" enum:"read,write,admin" doc:"write if left out"`
	AccountID string     `json:"account_id,omitempty"`
	Tenant    string     `json:"tenant,omitempty" doc:"Tenant the key is for, made if there is none; only an admin key of the tenant 'default' may name another than its own"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// NewKey is a key just made. Its secret is shown this once.
type NewKey struct {
	Key
	Secret string `json:"secret" doc:"The key itself; it is stored as a hash only and never shown again"`
}

// Agent is a tenant's record of an agent: a template with overrides, selected by agent_id.
type Agent struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Template  string          `json:"template"`
	Overrides json.RawMessage `json:"overrides,omitempty" doc:"What this agent changes of its template: model, profile and env. Values of env are masked for keys without the scope admin"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// PutAgent asks for an agent, or changes one.
type PutAgent struct {
	Name      string          `json:"name" minLength:"1" maxLength:"200"`
	Template  string          `json:"template,omitempty" maxLength:"63"`
	Overrides json.RawMessage `json:"overrides,omitempty" doc:"What this agent changes of its template: model (text), profile (lite, standard or full) and env (an object of variables)"`
}
