package auth

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/internal/store"
)

// LinkTime is the time within which a sign-in link must be used.
const LinkTime = 10 * time.Minute

// Link returns a new token that signs a browser in once, as the principal, and the time at which it expires. It ends with
// its key, as sessions do.
func (s *Sessions) Link(who Principal) (token string, expires time.Time) {
	expires = time.Now().Add(LinkTime)
	return s.links.Sign(who.KeyID + " " + strconv.FormatInt(expires.Unix(), 10) + " " + store.NewID()), expires
}

// OpenLink returns the principal of a token, or an error with code unauthenticated. It uses the token up: on all servers
// together it succeeds once.
func (s *Sessions) OpenLink(ctx context.Context, db *store.DB, token string) (Principal, error) {
	const op = "open sign-in link"
	text, ok := s.links.Open(token)
	parts := strings.Split(text, " ")
	if !ok || len(parts) != 3 {
		return Principal{}, linkOver(op, "the link is not valid")
	}
	who, err := s.principal(ctx, op, parts[0], parts[1])
	if err != nil {
		return Principal{}, err
	}
	claim, err := db.In(store.TenantID(who.Tenant)).Requests().Claim(ctx, store.ClaimRequest{Route: "sign-in link", Key: parts[2], Holder: parts[2], TTL: 2 * LinkTime})
	if err == nil && claim.Outcome != store.ClaimFresh {
		err = linkOver(op, "the link was used before")
	}
	return who, err
}

func linkOver(op, text string) error {
	e := sessionOver(op, "%s", text)
	e.Hint = "Run 'berth console' for a new link, or sign in with an API key."
	return e
}
