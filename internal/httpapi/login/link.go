package login

import (
	"context"
	"net/http"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
)

// addLink adds the route that makes sign-in links. The token is in the fragment of the address, which browsers do not send,
// so it is in no log.
func (a *handlers) addLink(s *rest.Spec) {
	rest.Serve(s, rest.Operation{
		Route: exchange.Route{Method: http.MethodPost, Path: "/api/v1/caller/link", Name: "create-sign-in-link", Scope: api.ScopeRead, Secret: true, Hidden: true},
		Tag:   "Keys", Summary: "Create a link that signs a browser in once",
		Description: "The browser acts with the caller's key, until it signs out, the key ends or seven days are over. The link works once, within ten minutes.",
	}, func(ctx context.Context, _ *struct{}) (*rest.Reply[api.SignInLink], error) {
		who, _ := auth.PrincipalFrom(ctx)
		return &rest.Reply[api.SignInLink]{Body: SignInLink(a.Sessions, who)}, nil
	})
}

// SignInLink makes a sign-in link.
func SignInLink(sessions *auth.Sessions, who auth.Principal) api.SignInLink {
	token, expires := sessions.Link(who)
	return api.SignInLink{Path: "/#/sign-in/" + token, ExpiresAt: expires.UTC()}
}
