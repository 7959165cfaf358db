package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/store"
)

// URLReader reads signed URLs by id, with their keys.
type URLReader interface {
	ByID(ctx context.Context, ids []string) ([]store.PreviewURL, error)
}

// URLs signs and checks the tokens of signed URLs. A token names one port of one sandbox and its expiry; the row of a URL
// with port zero names a terminal.
type URLs struct {
	signer Signer
	rows   URLReader

	mu    sync.Mutex
	known map[string]knownURL // by id
}

// knownURL is a row that was read a moment ago.
type knownURL struct {
	store.PreviewURL
	at time.Time
}

const (
	urlTime   = time.Second // time for which a row is not read again: a page consists of hundreds of requests
	knownURLs = 10_000
)

// NewURLs returns URLs whose tokens are signed with the secrets, the newest first.
func NewURLs(rows URLReader, newest Secret, previous ...Secret) *URLs {
	return &URLs{signer: NewSigner("preview URLs", newest, previous...), rows: rows, known: map[string]knownURL{}}
}

// Sign returns the token of a URL.
func (s *URLs) Sign(u store.PreviewURL) string {
	return s.signer.Sign(fmt.Sprintf("%s %s %d %d", u.ID, u.Sandbox, u.Port, u.ExpiresAt.Unix()))
}

// Authenticate returns the principal of a token at a port of a sandbox, and the URL that it belongs to. The error tells
// tokens that are forged, of another port, expired and revoked apart.
func (s *URLs) Authenticate(ctx context.Context, token, sandbox string, port uint16) (Principal, store.PreviewURL, error) {
	u, err := s.open(token)
	if err == nil && (u.Sandbox != sandbox || u.Port != port) {
		err = urlError(api.CodeForbidden, "the URL is for another sandbox or port")
	}
	if err != nil {
		return Principal{}, u, err
	}
	return s.principal(ctx, u)
}

// AuthenticateTerminal returns the principal of a token of a terminal. It may do nothing but use that terminal.
func (s *URLs) AuthenticateTerminal(ctx context.Context, token string) (Principal, error) {
	u, err := s.open(token)
	if err == nil && u.Port != 0 {
		err = urlError(api.CodeForbidden, "the URL is that of a port")
	}
	var who Principal
	if err == nil {
		who, _, err = s.principal(ctx, u)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code != api.CodeStoreUnavailable {
		e.Hint = "Make a new URL with POST …/sandboxes/{id}/terminal and the exec_id, or ask the person who sent it for one."
	}
	return who, err
}

// open checks the signature and the expiry of a token.
func (s *URLs) open(token string) (u store.PreviewURL, err error) {
	text, ok := s.signer.Open(token)
	var expires int64
	if ok {
		_, err := fmt.Sscanf(text, "%s %s %d %d", &u.ID, &u.Sandbox, &u.Port, &expires)
		ok = err == nil
	}
	u.ExpiresAt = time.Unix(expires, 0)
	switch {
	case !ok:
		return u, urlError(api.CodeUnauthenticated, "the URL is not valid: its signature does not fit")
	case !time.Now().Before(u.ExpiresAt):
		return u, urlError(api.CodeURLExpired, "the URL expired at %s", u.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return u, nil
}

// principal returns the principal of a token that was opened.
func (s *URLs) principal(ctx context.Context, u store.PreviewURL) (Principal, store.PreviewURL, error) {
	row, err := s.row(ctx, u.ID)
	if err != nil {
		return Principal{}, u, err
	}
	if err := URLEnded(row, time.Now()); err != nil {
		return Principal{}, row, err
	}
	who := principalOf(row.Key)
	who.AccountID, who.Scope = who.Within(), api.ScopeWrite
	who.Sandbox, who.Port, who.Terminal, who.ViewOnly, who.URL = row.Sandbox, row.Port, row.Terminal, row.ViewOnly, row.ID
	return who, row, nil
}

// row returns the row of a URL. A URL without a row is returned as revoked.
func (s *URLs) row(ctx context.Context, id string) (store.PreviewURL, error) {
	s.mu.Lock()
	known, ok := s.known[id]
	s.mu.Unlock()
	if ok && time.Since(known.at) < urlTime {
		return known.PreviewURL, nil
	}
	at := time.Now()
	found, err := s.rows.ByID(ctx, []string{id})
	if err != nil {
		return store.PreviewURL{}, err
	}
	if len(found) == 0 {
		return store.PreviewURL{RevokedAt: at}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= knownURLs {
		clear(s.known)
	}
	s.known[id] = knownURL{found[0], at}
	return found[0], nil
}

// Forget makes the next request of every URL read its row.
func (s *URLs) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// URLEnded returns the error of a URL that is no longer valid, or nil.
func URLEnded(u store.PreviewURL, now time.Time) error {
	switch {
	case !u.RevokedAt.IsZero():
		return urlError(api.CodeURLRevoked, "the URL was revoked at %s", u.RevokedAt.UTC().Format(time.RFC3339))
	case !u.Key.RevokedAt.IsZero():
		return urlError(api.CodeURLRevoked, "the key that made the URL was revoked at %s", u.Key.RevokedAt.UTC().Format(time.RFC3339))
	case !now.Before(u.ExpiresAt):
		return urlError(api.CodeURLExpired, "the URL expired at %s", u.ExpiresAt.UTC().Format(time.RFC3339))
	case !u.Key.Live(now):
		return urlError(api.CodeURLExpired, "the key that made the URL expired at %s", u.Key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

func urlError(code api.Code, format string, args ...any) error {
	e := fault.Errorf("authenticate URL", code, format, args...)
	e.Hint = "Make a new URL with 'berth open SANDBOX PORT', or ask the person who sent it for one."
	return e
}

// IsKey reports whether a text has the format of a generated key.
func IsKey(text string) bool {
	body, ours := split(text)
	return ours && checksum(body) == text[len(body):]
}

// CarriesKey reports whether the value of an Authorization header has a generated key.
func CarriesKey(authorization string) bool {
	_, key, _ := strings.Cut(authorization, " ")
	return IsKey(strings.TrimSpace(key))
}
