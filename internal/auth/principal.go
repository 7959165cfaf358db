package auth

import (
	"context"
	"slices"

	"github.com/berthdev/berth/api"
)

// Principal is the identity of an authenticated caller.
type Principal struct {
	Tenant    string
	AccountID string // empty: the key is not limited to an account
	KeyID     string
	KeyLabel  string // shown to people; empty for a key without one
	Scope     api.Scope

	Sandbox string // the only sandbox that it may reach, for a signed URL; empty: all
	Port    uint16 // the only port of it; zero: all

	URL      string // the id of the signed URL; empty: the caller has another credential
	Terminal string // the only terminal of the sandbox, for the signed URL of one
	ViewOnly bool   // it may only look at the terminal
}

// Within returns the account whose sandboxes and conversations the principal may see. Empty means all accounts of the
// tenant: so it is for a key without an account and for an administrator.
func (p Principal) Within() string {
	if p.Scope == api.ScopeAdmin {
		return ""
	}
	return p.AccountID
}

// Actor names the principal in a sandbox's history.
func (p Principal) Actor() string {
	if p.KeyLabel == "" {
		return "key " + p.KeyID
	}
	return "key " + p.KeyLabel + " (" + p.KeyID + ")"
}

// Scopes lists all scopes; each includes those before it.
var Scopes = []api.Scope{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin}

// Includes reports whether a key with scope have may call an operation that requires scope need. It returns false if
// either scope is unknown.
func Includes(have, need api.Scope) bool {
	h, n := slices.Index(Scopes, have), slices.Index(Scopes, need)
	return n >= 0 && h >= n
}

// Highest returns the highest known scope in the list, which includes the others. It returns "" if there is none.
func Highest(scopes []string) api.Scope {
	var highest api.Scope
	for _, s := range Scopes {
		if slices.Contains(scopes, string(s)) {
			highest = s
		}
	}
	return highest
}

type principalKey struct{}

// WithPrincipal returns a context with the principal.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the context's principal, and whether there is one.
func PrincipalFrom(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
