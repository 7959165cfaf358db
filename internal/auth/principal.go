package auth

import (
	"context"
	"slices"

	"github.com/berthdev/berth/api"
)

// Principal is who is calling.
type Principal struct {
	Tenant    string
	AccountID string // empty for a key of the tenant itself
	KeyID     string
	KeyLabel  string // as people know it; empty for one without
	Scope     api.Scope
}

// Within is the one account whose sandboxes and conversations the principal may see; empty for a key that is
// bound to none, and for an administrator: those see all of the tenant.
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

// Scopes lists every scope, each including those before it.
var Scopes = []api.Scope{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin}

// Includes reports whether a key of scope have may do what needs scope need. A scope that does not
// exist includes nothing and is included in none.
func Includes(have, need api.Scope) bool {
	h, n := slices.Index(Scopes, have), slices.Index(Scopes, need)
	return n >= 0 && h >= n
}

// Highest returns the one of the scopes that includes the others; empty if there is none.
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

// WithPrincipal returns a context that carries who is calling.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns who is calling, and whether anybody was authenticated at all.
func PrincipalFrom(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
