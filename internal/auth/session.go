package auth

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// Kind is a kind of credential. A route lists the kinds that it accepts.
type Kind string

// The kinds of credentials.
const (
	APIKey    Kind = "API key"         // a key in a header
	Session   Kind = "browser session" // a cookie that was made from a key at /login
	SignedURL Kind = "signed URL"      // an address of one port or terminal of one sandbox, or the cookie that was made from it
)

// SessionTime is the time after which a browser has to send its key again.
const SessionTime = 7 * 24 * time.Hour

// KeyReader reads keys by id.
type KeyReader interface {
	ByID(ctx context.Context, ids []string) ([]store.Key, error)
}

// Sessions makes and checks the cookies of browsers. Nothing is stored: a cookie names a key, and the key is read for every
// request, so that a session ends with its key.
type Sessions struct {
	signer Signer
	links  Signer
	keys   KeyReader
}

// NewSessions returns Sessions whose cookies are signed with the secrets, the newest first.
func NewSessions(keys KeyReader, newest Secret, previous ...Secret) *Sessions {
	return &Sessions{NewSigner("browser sessions", newest, previous...), NewSigner("sign-in links", newest, previous...), keys}
}

// SessionCookie returns the name of the cookie. Over HTTPS the browser ensures that no other host has set it.
func SessionCookie(secure bool) string {
	if secure {
		return "__Host-berth_session"
	}
	return "berth_session"
}

// Begin returns the cookie of a new session of a key.
func (s *Sessions) Begin(who Principal, secure bool) *http.Cookie {
	ends := time.Now().Add(SessionTime)
	return &http.Cookie{
		Name: SessionCookie(secure), Value: s.signer.Sign(who.KeyID + " " + strconv.FormatInt(ends.Unix(), 10)),
		Path: "/", MaxAge: int(SessionTime.Seconds()), Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// End returns the cookie that ends the browser's session.
func (s *Sessions) End(secure bool) *http.Cookie {
	return &http.Cookie{Name: SessionCookie(secure), Path: "/", MaxAge: -1, Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// Authenticate returns the principal of a cookie's value, or an error with code unauthenticated.
func (s *Sessions) Authenticate(ctx context.Context, value string) (Principal, error) {
	const op = "authenticate session"
	text, ok := s.signer.Open(value)
	id, end, _ := strings.Cut(text, " ")
	if !ok {
		return Principal{}, sessionOver(op, "the session is not valid")
	}
	return s.principal(ctx, op, id, end)
}

// principal returns the principal of a key, for something that ends at a time.
func (s *Sessions) principal(ctx context.Context, op, id, end string) (Principal, error) {
	ends, err := strconv.ParseInt(end, 10, 64)
	switch {
	case err != nil:
		return Principal{}, sessionOver(op, "the session is not valid")
	case time.Now().Unix() >= ends:
		return Principal{}, sessionOver(op, "the session ended at %s", time.Unix(ends, 0).UTC().Format(time.RFC3339))
	}
	found, err := s.keys.ByID(ctx, []string{id})
	if err != nil {
		return Principal{}, err
	}
	if len(found) == 0 {
		return Principal{}, sessionOver(op, "the key of the session was removed")
	}
	if err := checkLive(op, found[0]); err != nil {
		return Principal{}, err
	}
	return principalOf(found[0]), nil
}

func sessionOver(op, format string, args ...any) *fault.Error {
	e := fault.Errorf(op, api.CodeUnauthenticated, format, args...)
	e.Hint = "Sign in again at /login."
	return e
}
